// Operations on groups, links, committed types and whole objects.
#include <algorithm>
#include <array>

#include "program.h"

namespace differential {
namespace {

// Any path of the file that was ever made, or one that never was.
std::string some_path(const FileState& file, Random& random) {
    if (random.chance(8)) return random.pick({"/missing", "/missing/deeper", "", "nothing_3"});
    for (const auto* list : random.pick({std::array{&file.datasets, &file.groups, &file.types},
                                         std::array{&file.groups, &file.datasets, &file.types},
                                         std::array{&file.types, &file.datasets, &file.groups}}))
        if (!list->empty()) return random.pick(*list);
    return "/";
}

std::vector<std::string>& list_of(FileState& file, const std::string& path) {
    if (std::ranges::find(file.groups, path) != file.groups.end()) return file.groups;
    if (std::ranges::find(file.types, path) != file.types.end()) return file.types;
    return file.datasets;
}

void create_group(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr) return;
    FileState& file = program.file_of(*handle);
    const std::string path = program.new_path(file, 'g', Element::kInt32, random);
    std::string text = file.name + ":" + path;
    const Id creation = random_group_creation(random, text), links = creating_intermediate_groups();
    program.journal().note(text);
    Id group(H5Gcreate2(handle->id.get(), path.c_str(), links.get(), creation.get(), H5P_DEFAULT));
    if (!program.journal().call("create", group.get())) return;
    file.groups.push_back(path);
    if (random.chance(30)) {   // enough links to change how they are stored
        const auto count = random.between(5, 40);
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::string name = "many" + std::to_string(random.below(60));
            if (random.chance(60))
                program.journal().call("soft", H5Lcreate_soft("/somewhere/else", group.get(), name.c_str(), H5P_DEFAULT,
                                                              H5P_DEFAULT));
            else if (random.chance(50))
                program.journal().call("delete", H5Ldelete(group.get(), name.c_str(), H5P_DEFAULT));
            else
                program.journal().call(
                    "group", Id(H5Gcreate2(group.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)).get());
        }
    }
    program.journal().call("close", group.close());
}

void create_link(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr) return;
    FileState& file = program.file_of(*handle);
    FileState& other = random.pick(program.files());
    // Through another driver the target would be a second, unrelated open file.
    const auto kind = random.below(file.driver <= Driver::kPosix && other.driver <= Driver::kPosix ? 3 : 2);
    FileState& target_file = kind == 2 ? other : file;
    const std::string target = some_path(target_file, random);
    const std::string path = program.new_path(file, 'l', Program::element_of(target), random);
    const Id links = creating_intermediate_groups();
    program.journal().note(file.name + ":" + path + " -> " + target_file.name + ":" + target);
    bool made = false;
    switch (kind) {
        case 0:
            made = program.journal().call("hard-link",
                                          H5Lcreate_hard(handle->id.get(), target.c_str(), handle->id.get(),
                                                         path.c_str(), links.get(), H5P_DEFAULT));
            break;
        case 1:
            made = program.journal().call("soft-link", H5Lcreate_soft(target.c_str(), handle->id.get(), path.c_str(),
                                                                      links.get(), H5P_DEFAULT));
            break;
        default:
            made = program.journal().call("external-link",
                                          H5Lcreate_external(target_file.name.c_str(), target.c_str(), handle->id.get(),
                                                             path.c_str(), links.get(), H5P_DEFAULT));
            break;
    }
    if (made) {
        const std::string known = target;   // the list may grow
        auto& list = list_of(target_file, known) == target_file.groups    ? file.groups
                     : &list_of(target_file, known) == &target_file.types ? file.types
                                                                          : file.datasets;
        if (&list != &file.groups || kind == 0 || random.chance(50)) list.push_back(path);
    }
}

void delete_link(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr) return;
    FileState& file = program.file_of(*handle);
    const auto times = random.pick({1, 1, 2, 5});
    for (int i = 0; i < times; ++i) {
        const std::string path = some_path(file, random);
        if (path == "/") continue;
        program.journal().note(file.name + ":" + path);
        if (program.journal().call("delete", H5Ldelete(handle->id.get(), path.c_str(), H5P_DEFAULT)) &&
            random.chance(90))
            program.forget(file, path);
    }
}

void move_or_copy_link(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr) return;
    FileState& file = program.file_of(*handle);
    const std::string path = some_path(file, random);
    auto& list = list_of(file, path);
    const std::string target = program.new_path(file, 'm', Program::element_of(path), random);
    const Id links = creating_intermediate_groups();
    const bool move = random.chance(60);
    program.journal().note(file.name + ":" + path + " -> " + target);
    if (path == "/") return;
    const herr_t result = move ? H5Lmove(handle->id.get(), path.c_str(), handle->id.get(), target.c_str(), links.get(),
                                         H5P_DEFAULT)
                               : H5Lcopy(handle->id.get(), path.c_str(), handle->id.get(), target.c_str(), links.get(),
                                         H5P_DEFAULT);
    if (!program.journal().call(move ? "move" : "copy-link", result)) return;
    const bool group = &list == &file.groups;
    if (group) Program::learn_copy(file, path, file, target);
    else list.push_back(target);
    if (move) program.forget(file, path);
}

void copy_object(Program& program, Random& random) {
    Handle* from = program.some_handle(random, false);
    Handle* to = program.some_handle(random);
    if (from == nullptr || !to->writable) return;   // HDF5 1.14 tries, and cannot close the file then
    FileState& source = program.file_of(*from);
    FileState& target = program.file_of(*to);
    const std::string path = some_path(source, random);
    if (path == "/" && &source == &target) return;   // would copy the copy
    if (source.datasets.size() + target.datasets.size() > 150) return;
    const std::string name = program.new_path(target, 'c', Program::element_of(path), random);
    if (name.starts_with(path)) return;
    const Id options(H5Pcreate(H5P_OBJECT_COPY)), links = creating_intermediate_groups();
    const unsigned flags = static_cast<unsigned>(random.below(64)) &
                           (H5O_COPY_SHALLOW_HIERARCHY_FLAG | H5O_COPY_EXPAND_SOFT_LINK_FLAG |
                            H5O_COPY_WITHOUT_ATTR_FLAG | H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG);
    H5Pset_copy_object(options.get(), random.chance(50) ? 0 : flags);
    program.journal().note(source.name + ":" + path + " -> " + target.name + ":" + name);
    if (program.journal().call("copy", H5Ocopy(from->id.get(), path.c_str(), to->id.get(), name.c_str(), options.get(),
                                               links.get())))
        Program::learn_copy(source, path, target, name);
}

herr_t note_link(hid_t, const char* name, const H5L_info2_t* info, void* data) {
    auto& digest = *static_cast<std::uint64_t*>(data);
    digest = combine(combine(digest_bytes(std::as_bytes(std::span(name, std::char_traits<char>::length(name))), digest),
                             static_cast<std::uint64_t>(info->type)),
                     info->corder_valid ? static_cast<std::uint64_t>(info->corder) : 77);
    return 0;
}

herr_t note_object(hid_t, const char* name, const H5O_info2_t* info, void* data) {
    auto& digest = *static_cast<std::uint64_t*>(data);
    digest = combine(digest_bytes(std::as_bytes(std::span(name, std::char_traits<char>::length(name))), digest),
                     static_cast<std::uint64_t>(info->type));
    digest = combine(combine(digest, info->rc), info->num_attrs);
    digest = digest_bytes(std::as_bytes(std::span(info->token.__data)), digest);
    return 0;
}

void list_links(Program& program, Random& random) {
    Handle* handle = program.some_handle(random, false);
    if (handle == nullptr) return;
    Journal& journal = program.journal();
    FileState& file = program.file_of(*handle);
    const std::string path = random.pick(file.groups);
    const auto index = random.pick({H5_INDEX_NAME, H5_INDEX_CRT_ORDER});
    const auto order = random.pick({H5_ITER_INC, H5_ITER_DEC, H5_ITER_NATIVE});
    journal.note(file.name + ":" + path);
    hsize_t at = 0;
    std::uint64_t digest = 0;
    if (journal.call("iterate", H5Literate_by_name2(handle->id.get(), path.c_str(), index, order, &at, note_link,
                                                    &digest, H5P_DEFAULT)))
        journal.digest("links", digest);
    H5G_info_t info{};
    if (!journal.call("group-info", H5Gget_info_by_name(handle->id.get(), path.c_str(), &info, H5P_DEFAULT))) return;
    journal.value("links", static_cast<std::int64_t>(info.nlinks));
    journal.value("storage", info.storage_type);
    if (info.nlinks == 0) return;
    std::array<char, 100> name{};
    const hsize_t place = random.below(info.nlinks);
    if (journal.call("name", H5Lget_name_by_idx(handle->id.get(), path.c_str(), index, H5_ITER_INC, place, name.data(),
                                                name.size(), H5P_DEFAULT)))
        journal.note(name.data());
    if (random.chance(10))
        journal.call("delete",
                     H5Ldelete_by_idx(handle->id.get(), path.c_str(), index, H5_ITER_INC, place, H5P_DEFAULT));
}

void visit(Program& program, Random& random) {
    Handle* handle = program.some_handle(random, false);
    if (handle == nullptr) return;
    Journal& journal = program.journal();
    journal.note(program.file_of(*handle).name);
    std::uint64_t digest = 0;
    if (journal.call("visit", H5Ovisit3(handle->id.get(), H5_INDEX_NAME, H5_ITER_INC, note_object, &digest,
                                        H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS)))
        journal.digest("objects", digest);
    if (random.chance(50) &&
        journal.call("visit-links", H5Lvisit2(handle->id.get(), H5_INDEX_NAME, H5_ITER_INC, note_link, &digest)))
        journal.digest("links", digest);
}

void object_facts(Program& program, Random& random) {
    Handle* handle = program.some_handle(random, false);
    if (handle == nullptr) return;
    Journal& journal = program.journal();
    FileState& file = program.file_of(*handle);
    const std::string path = some_path(file, random);
    journal.note(file.name + ":" + path);
    const hid_t id = handle->id.get();
    journal.value("exists", H5Lexists(id, path.c_str(), H5P_DEFAULT));
    journal.value("object", H5Oexists_by_name(id, path.c_str(), H5P_DEFAULT));
    H5L_info2_t link{};
    if (journal.call("link-info", H5Lget_info2(id, path.c_str(), &link, H5P_DEFAULT)) && link.type != H5L_TYPE_HARD) {
        std::vector<std::byte> value(link.u.val_size);
        if (journal.call("link-value", H5Lget_val(id, path.c_str(), value.data(), value.size(), H5P_DEFAULT)))
            journal.digest("value", value);
    }
    H5O_info2_t info{};
    if (journal.call("info", H5Oget_info_by_name3(id, path.c_str(), &info, H5O_INFO_ALL, H5P_DEFAULT))) {
        journal.value("type", info.type);
        journal.value("links", info.rc);
        journal.value("changed", info.mtime);
        journal.value("attributes", static_cast<std::int64_t>(info.num_attrs));
        journal.digest("token", std::as_bytes(std::span(info.token.__data)));
    }
    H5O_native_info_t native{};
    if (journal.call("native-info",
                     H5Oget_native_info_by_name(id, path.c_str(), &native, H5O_NATIVE_INFO_HDR, H5P_DEFAULT))) {
        journal.value("header", static_cast<std::int64_t>(native.hdr.space.total));
        journal.value("header-free", static_cast<std::int64_t>(native.hdr.space.free));
    }
    const Id object(H5Oopen(id, path.c_str(), H5P_DEFAULT));
    if (!journal.call("open", object.get())) return;
    std::array<char, 200> name{};
    if (journal.call("name", H5Iget_name(object.get(), name.data(), name.size()))) journal.note(name.data());
    if (handle->writable && random.chance(30))
        journal.call("comment", H5Oset_comment(object.get(), random.chance(70) ? "a comment" : nullptr));
}

void commit_type(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr) return;
    FileState& file = program.file_of(*handle);
    const Element element = random_element(random);
    const std::string path = program.new_path(file, 't', element, random);
    const Id type = file_type(element), links = creating_intermediate_groups();
    program.journal().note(file.name + ":" + path + " " + element_name(element));
    if (program.journal().call("commit", H5Tcommit2(handle->id.get(), path.c_str(), type.get(), links.get(),
                                                    H5P_DEFAULT, H5P_DEFAULT)))
        file.types.push_back(path);
}

// The space of deleted data is used again while the old bytes may still be on their way.
void reuse_space(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr || program.file_of(*handle).datasets.empty()) return;
    FileState& file = program.file_of(*handle);
    Journal& journal = program.journal();
    for (int i = 0; i < 3; ++i) {
        if (file.datasets.empty()) break;
        const std::string old = random.pick(file.datasets);
        journal.note(old);
        if (journal.call("delete", H5Ldelete(handle->id.get(), old.c_str(), H5P_DEFAULT))) program.forget(file, old);
        const std::string path = program.new_path(file, 'd', Element::kInt8, random);
        const hsize_t bytes = random.skewed(1, 5000);
        const Id space(H5Screate_simple(1, &bytes, nullptr)), links = creating_intermediate_groups();
        const Id dataset(H5Dcreate2(handle->id.get(), path.c_str(), H5T_STD_I8LE, space.get(), links.get(), H5P_DEFAULT,
                                    H5P_DEFAULT));
        if (!journal.call("create", dataset.get())) continue;
        file.datasets.push_back(path);
        Values values(Element::kInt8, bytes, random, H5I_INVALID_HID, {});
        journal.call("write", H5Dwrite(dataset.get(), H5T_NATIVE_INT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
        if (random.chance(30)) journal.call("flush", H5Fflush(handle->id.get(), H5F_SCOPE_LOCAL));
        ReadBuffer buffer(Element::kInt8, bytes);
        if (journal.call("read", H5Dread(dataset.get(), H5T_NATIVE_INT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer.data())))
            journal.digest("data", buffer.digest());
    }
}

}   // namespace

std::vector<Operation> group_operations() {
    return {
        {"create_group", 10, create_group},
        {"create_link", 8, create_link},
        {"delete_link", 9, delete_link},
        {"move_or_copy_link", 6, move_or_copy_link},
        {"copy_object", 6, copy_object},
        {"list_links", 6, list_links},
        {"visit", 4, visit},
        {"object_facts", 8, object_facts},
        {"commit_type", 4, commit_type},
        {"reuse_space", 6, reuse_space},
    };
}

}   // namespace differential
