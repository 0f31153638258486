// Operations on attributes: small, large, many.
#include <array>

#include "program.h"
#include "selection.h"

namespace differential {
namespace {

// Some object of some open file, by name or a dataset that is held open.
Id some_object(Program& program, Random& random, bool writable) {
    Journal& journal = program.journal();
    if (!program.held().empty() && random.chance(40)) {
        const auto& dataset = random.pick(program.held());
        journal.note(dataset.path);
        Id same(H5Oopen(dataset.id.get(), ".", H5P_DEFAULT));
        journal.call("object", same.get());
        return same;
    }
    Handle* handle = program.some_handle(random, writable);
    if (handle == nullptr) return Id();
    const FileState& file = program.file_of(*handle);
    const auto& list = random.chance(40) || file.datasets.empty() ? file.groups : file.datasets;
    const std::string& path = random.pick(list);
    journal.note(file.name + ":" + path);
    Id object(H5Oopen(handle->id.get(), path.c_str(), H5P_DEFAULT));
    journal.call("object", object.get());
    return object;
}

std::string attribute_name(Random& random, Element element) {
    return "attribute" + std::to_string(random.below(5)) + "_" + std::to_string(static_cast<int>(element));
}

void write_attribute(Program& program, hid_t attribute, Element element, std::size_t count, Random& random) {
    Values values(element, count, random, attribute, program.files()[0].datasets);
    if (is_number(element) && count > 0 && program.strikes(Fault::kValue))
        for (auto& byte : values.bytes()) byte ^= std::byte{1};
    const Id type = memory_type(element);
    program.journal().call("write", H5Awrite(attribute, type.get(), values.data()));
}

void read_attribute(Program& program, hid_t attribute, Element element) {
    const Id space(H5Aget_space(attribute)), type = memory_type(element);
    const auto points = H5Sget_simple_extent_npoints(space.get());
    if (!program.journal().call("space", space.get()) || points < 0) return;
    ReadBuffer buffer(element, static_cast<std::size_t>(points));
    if (program.journal().call("read", H5Aread(attribute, type.get(), buffer.data())))
        program.journal().digest("data", buffer.digest());
}

void create_one(Program& program, hid_t object, const std::string& name, Element element, std::size_t elements_max,
                Random& random) {
    const hsize_t count = random.skewed(1, elements_max);
    const bool scalar = random.chance(40);
    const Id space(scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr)), type = file_type(element);
    program.journal().note(name + (scalar ? std::string(" scalar ") : " " + std::to_string(count) + " ") +
                           element_name(element));
    Id attribute(H5Acreate2(object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
    if (!program.journal().call("create", attribute.get())) return;
    if (random.chance(85)) write_attribute(program, attribute.get(), element, scalar ? 1 : count, random);
    program.journal().call("close", attribute.close());
}

void create_attribute(Program& program, Random& random) {
    const Id object = some_object(program, random, true);
    if (!object.valid()) return;
    const Element element = random_element(random);
    const auto most = owns_memory(element) ? 20 : random.chance(15) ? 20000 : 60;
    create_one(program, object.get(), attribute_name(random, element), element, static_cast<std::size_t>(most), random);
}

// Enough of them to leave the object header.
void many_attributes(Program& program, Random& random) {
    const Id object = some_object(program, random, true);
    if (!object.valid()) return;
    const auto count = random.between(6, 25);
    for (std::uint64_t i = 0; i < count; ++i) {
        const Element element = random_element(random);
        const std::string name = "many" + std::to_string(random.below(40)) + "_" +
                                 std::to_string(static_cast<int>(element));
        if (random.chance(75)) create_one(program, object.get(), name, element, 30, random);
        else program.journal().call("delete", H5Adelete(object.get(), name.c_str()));
    }
}

// The attribute at a random place of an index; invalid if there is none.
Id some_attribute(Program& program, hid_t object, Random& random, std::string& name) {
    H5O_info2_t info{};
    if (!program.journal().call("object-info", H5Oget_info3(object, &info, H5O_INFO_NUM_ATTRS)) || info.num_attrs == 0)
        return Id();
    Id attribute(H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, random.below(info.num_attrs), H5P_DEFAULT,
                                H5P_DEFAULT));
    if (!program.journal().call("open", attribute.get())) return Id();
    std::array<char, 100> text{};
    H5Aget_name(attribute.get(), text.size(), text.data());
    name = text.data();
    program.journal().note(name);
    return attribute;
}

void overwrite_attribute(Program& program, Random& random) {
    const Id object = some_object(program, random, true);
    if (!object.valid()) return;
    std::string name;
    const Id attribute = some_attribute(program, object.get(), random, name);
    if (!attribute.valid()) return;
    const Id space(H5Aget_space(attribute.get()));
    const Element element = Program::element_of(name);
    write_attribute(program, attribute.get(), element,
                    static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())), random);
    read_attribute(program, attribute.get(), element);
}

void read_attributes(Program& program, Random& random) {
    const Id object = some_object(program, random, false);
    if (!object.valid()) return;
    for (int i = 0; i < 3; ++i) {
        std::string name;
        const Id attribute = some_attribute(program, object.get(), random, name);
        if (!attribute.valid()) return;
        read_attribute(program, attribute.get(), Program::element_of(name));
    }
}

void delete_or_rename(Program& program, Random& random) {
    const Id object = some_object(program, random, true);
    if (!object.valid()) return;
    std::string name;
    Id attribute = some_attribute(program, object.get(), random, name);
    if (random.chance(50)) attribute.close();
    if (name.empty()) name = "missing_3";
    if (random.chance(60)) program.journal().call("delete", H5Adelete(object.get(), name.c_str()));
    else
        program.journal().call("rename", H5Arename(object.get(), name.c_str(),
                                                   attribute_name(random, Program::element_of(name)).c_str()));
    program.journal().value("exists", H5Aexists(object.get(), name.c_str()));
}

herr_t note_attribute(hid_t, const char* name, const H5A_info_t* info, void* data) {
    auto& digest = *static_cast<std::uint64_t*>(data);
    digest = combine(digest_bytes(std::as_bytes(std::span(name, std::char_traits<char>::length(name))), digest),
                     info->data_size);
    digest = combine(digest, info->corder_valid ? info->corder : 77);
    return 0;
}

void list_attributes(Program& program, Random& random) {
    const Id object = some_object(program, random, false);
    if (!object.valid()) return;
    hsize_t at = 0;
    std::uint64_t digest = 0;
    const auto index = random.pick({H5_INDEX_NAME, H5_INDEX_CRT_ORDER});
    if (program.journal().call("iterate", H5Aiterate2(object.get(), index, H5_ITER_INC, &at, note_attribute, &digest)))
        program.journal().digest("attributes", digest);
}

}   // namespace

std::vector<Operation> attribute_operations() {
    return {
        {"create_attribute", 10, create_attribute},      {"many_attributes", 3, many_attributes},
        {"overwrite_attribute", 6, overwrite_attribute}, {"read_attributes", 7, read_attributes},
        {"delete_or_rename", 5, delete_or_rename},       {"list_attributes", 4, list_attributes},
    };
}

}   // namespace differential
