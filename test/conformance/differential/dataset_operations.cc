// Operations on datasets: create, write, read, extend, shrink, and what HDF5 tells about them.
#include <algorithm>
#include <array>
#include <memory>

#include "program.h"
#include "selection.h"

namespace differential {
namespace {

// Now and then another type in memory than in the file: HDF5 converts. Not on the way into a virtual dataset,
// where HDF5 1.14 converts bytes that nobody gave it, and stores them.
Element memory_element(const HeldDataset& dataset, bool writing, Random& random) {
    if (!is_number(dataset.element) || random.chance(70)) return dataset.element;
    const Id creation(H5Dget_create_plist(dataset.id.get()));
    if (writing && H5Pget_layout(creation.get()) == H5D_VIRTUAL) return dataset.element;
    return static_cast<Element>(random.below(static_cast<std::uint64_t>(Element::kInt12Bits) + 1));
}

void create_dataset(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    if (handle == nullptr) return;
    FileState& file = program.file_of(*handle);
    const Element element = random_element(random);
    const std::string path = program.new_path(file, 'd', element, random);
    std::string stem = path;
    std::ranges::replace(stem, '/', '-');
    DatasetPlan plan = random_dataset(element, program.elements_max(element), file.stem + stem, random);
    Id type = file_type(element);
    std::string text = file.name + ":" + path + " " + element_name(element) + plan.text;
    if (!file.types.empty() && random.chance(25)) {
        const std::string& name = random.pick(file.types);
        Id committed(H5Topen2(handle->id.get(), name.c_str(), H5P_DEFAULT));
        if (Program::element_of(name) == element && committed.valid()) {
            type = std::move(committed);
            text += " type:" + name;
        }
    }
    const Id access = random_dataset_access(random, text), links = creating_intermediate_groups();
    Journal& journal = program.journal();
    journal.note(text);
    HeldDataset dataset{Id(H5Dcreate2(handle->id.get(), path.c_str(), type.get(), plan.space.get(), links.get(),
                                      plan.creation.get(), access.get())),
                        handle->file, element, path, handle->writable};
    if (!journal.call("create", dataset.id.get())) return;
    file.datasets.push_back(path);
    if (random.chance(70)) {
        const Transfer transfer = random_transfer(plan.dims, random, program.elements_max(element));
        journal.note(transfer.text);
        program.write(dataset.id.get(), element, transfer, random);
    }
    if (random.chance(40) && program.held().size() < 6) program.held().push_back(std::move(dataset));
    else journal.call("close", dataset.id.close());
}

void write_some(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, true);
    if (dataset == nullptr) return;
    const auto times = random.pick({1, 1, 2, 4});
    for (int i = 0; i < times; ++i) {
        const Element element = memory_element(*dataset, true, random);
        const Transfer transfer = random_transfer(extent_of(dataset->id.get()), random, program.elements_max(element));
        std::string text = transfer.text +
                           (element == dataset->element ? "" : std::string(" as ") + element_name(element));
        const Id list = random_transfer_list(random, text);
        program.journal().note(text);
        program.write(dataset->id.get(), element, transfer, random, list.get());
    }
    program.done_with(dataset, random);
}

void read_some(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, false);
    if (dataset == nullptr) return;
    const auto times = random.pick({1, 1, 3});
    for (int i = 0; i < times; ++i) {
        const Element element = memory_element(*dataset, false, random);
        const Transfer transfer = random_transfer(extent_of(dataset->id.get()), random, program.elements_max(element));
        std::string text = transfer.text +
                           (element == dataset->element ? "" : std::string(" as ") + element_name(element));
        const Id list = random_transfer_list(random, text);
        program.journal().note(text);
        program.read(dataset->id.get(), element, transfer, list.get());
    }
    program.done_with(dataset, random);
}

void read_whole(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, false);
    if (dataset == nullptr) return;
    const std::size_t total = product(extent_of(dataset->id.get()));
    if (total <= program.elements_max(dataset->element) * 2) {
        Transfer transfer;
        transfer.buffer_elements = total;
        program.read(dataset->id.get(), dataset->element, transfer);
    }
    program.done_with(dataset, random);
}

// A simulation appends one row per time step, and looks back now and then.
void append_steps(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, true);
    if (dataset == nullptr) return;
    Dims dims = extent_of(dataset->id.get());
    const auto steps = random.between(2, 6);
    const std::size_t room = program.elements_max(dataset->element);
    for (std::uint64_t step = 0; step < steps && !dims.empty() && product(dims) < 2 * room; ++step) {
        Dims start(dims.size()), count = dims;
        start[0] = dims[0];
        count[0] = random.between(1, 3);
        dims[0] += count[0];
        program.journal().note(to_text(dims));
        if (!program.journal().call("extend", H5Dset_extent(dataset->id.get(), dims.data()))) break;
        const Transfer transfer = slab_transfer(dims, start, count);
        program.write(dataset->id.get(), dataset->element, transfer, random);
        if (random.chance(20)) program.journal().call("flush", H5Dflush(dataset->id.get()));
        if (random.chance(20)) program.read(dataset->id.get(), dataset->element, random_transfer(dims, random, room));
    }
    program.done_with(dataset, random);
}

// Many writes of a few bytes, one behind the other.
void small_writes(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, true);
    if (dataset == nullptr) return;
    const Dims dims = extent_of(dataset->id.get());
    if (!dims.empty() && product(dims) > 0) {
        Dims start(dims.size()), count(dims.size(), 1);
        for (std::size_t d = 0; d < dims.size(); ++d) start[d] = random.below(dims[d]);
        const std::size_t axis = random.below(dims.size());
        const auto times = std::min<hsize_t>(dims[axis], random.between(10, 120));
        program.journal().note("from", static_cast<std::int64_t>(start[axis]));
        for (hsize_t i = 0; i < times; ++i) {
            start[axis] = (start[axis] + 1) % dims[axis];
            program.write(dataset->id.get(), dataset->element, slab_transfer(dims, start, count), random);
            if (i % 31 == 30) program.read(dataset->id.get(), dataset->element, slab_transfer(dims, start, count));
        }
        program.read(dataset->id.get(), dataset->element,
                     random_transfer(dims, random, program.elements_max(dataset->element)));
    }
    program.done_with(dataset, random);
}

void change_extent(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, true);
    if (dataset == nullptr) return;
    Dims dims = extent_of(dataset->id.get());
    const bool shrink = random.chance(45);
    for (auto& extent : dims) {
        if (random.chance(40)) continue;
        extent = shrink ? random.below(extent + 1) : extent + random.below(std::max<hsize_t>(extent, 8) + 1);
    }
    while (product(dims) > 2 * program.elements_max(dataset->element)) *std::ranges::max_element(dims) /= 2;
    program.journal().note(to_text(dims));
    program.journal().call("extent", H5Dset_extent(dataset->id.get(), dims.data()));
    program.done_with(dataset, random);
}

void flush_or_refresh(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, false);
    if (dataset == nullptr) return;
    switch (random.below(4)) {
        case 0: program.journal().call("refresh", H5Drefresh(dataset->id.get())); break;
        case 1: program.journal().call("object-flush", H5Oflush(dataset->id.get())); break;
        default: program.journal().call("flush", H5Dflush(dataset->id.get())); break;
    }
    program.done_with(dataset, random);
}

void dataset_facts(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, false);
    if (dataset == nullptr) return;
    Journal& journal = program.journal();
    const hid_t id = dataset->id.get();
    journal.value("storage", static_cast<std::int64_t>(H5Dget_storage_size(id)));
    journal.value("offset", static_cast<std::int64_t>(H5Dget_offset(id)));
    H5D_space_status_t status{};
    if (journal.call("status", H5Dget_space_status(id, &status))) journal.value("status", status);
    const Id type(H5Dget_type(id)), creation(H5Dget_create_plist(id)), access(H5Dget_access_plist(id));
    journal.value("type-bytes", static_cast<std::int64_t>(H5Tget_size(type.get())));
    journal.value("committed", H5Tcommitted(type.get()));
    journal.value("layout", H5Pget_layout(creation.get()));
    journal.value("filters", H5Pget_nfilters(creation.get()));
    std::size_t slots = 0, bytes = 0;
    if (journal.call("chunk-cache", H5Pget_chunk_cache(access.get(), &slots, &bytes, nullptr)))
        journal.value("slots", static_cast<std::int64_t>(slots));
    journal.note(to_text(extent_of(id)));
    program.done_with(dataset, random);
}

// Tens of megabytes in large pieces, faster than a drain: what a checkpoint does.
void burst(Program& program, Random& random) {
    if (!program.heavy()) return write_some(program, random);
    Handle* handle = program.some_handle(random);
    if (handle == nullptr) return;
    FileState& file = program.file_of(*handle);
    const std::string path = program.new_path(file, 'd', Element::kInt32, random);
    const Dims dims{random.between(4, 12), 128 * 1024 + random.below(1000)}, limit{H5S_UNLIMITED, dims[1]},
        chunk{1, dims[1] / random.between(1, 3)};
    const Id space(H5Screate_simple(2, dims.data(), nullptr)), growing(H5Screate_simple(2, dims.data(), limit.data()));
    const Id creation(H5Pcreate(H5P_DATASET_CREATE)), links = creating_intermediate_groups(),
                                                      type = file_type(Element::kInt32);
    const bool chunked = random.chance(50);
    if (chunked) H5Pset_chunk(creation.get(), 2, chunk.data());
    Journal& journal = program.journal();
    journal.note(file.name + ":" + path + " " + to_text(dims) + (chunked ? " chunked" : " contiguous"));
    const Id dataset(H5Dcreate2(handle->id.get(), path.c_str(), type.get(), (chunked ? growing : space).get(),
                                links.get(), creation.get(), H5P_DEFAULT));
    if (!journal.call("create", dataset.get())) return;
    file.datasets.push_back(path);
    for (hsize_t row = 0; row < dims[0]; ++row) {
        program.write(dataset.get(), Element::kInt32, slab_transfer(dims, {row, 0}, {1, dims[1]}), random);
        if (random.chance(20)) journal.call("flush", H5Fflush(dataset.get(), H5F_SCOPE_LOCAL));
        if (random.chance(20))
            program.read(dataset.get(), Element::kInt32, slab_transfer(dims, {random.below(row + 1), 0}, {1, dims[1]}));
    }
}

// A virtual dataset: every row is another dataset of this file or of another one; some are missing, or are
// never written, and the fill value shows there.
void create_virtual(Program& program, Random& random) {
    Handle* handle = program.some_handle(random);
    Handle* other = program.some_handle(random);
    if (handle == nullptr) return;
    FileState& file = program.file_of(*handle);
    Journal& journal = program.journal();
    const Element element = random.pick({Element::kInt8, Element::kInt32, Element::kInt64, Element::kFloat64});
    const std::string path = program.new_path(file, 'v', element, random);
    const Dims dims{random.between(1, 4), random.between(1, 40)};
    const Id type = file_type(element), links = creating_intermediate_groups(), creation(H5Pcreate(H5P_DATASET_CREATE));
    const Id whole(H5Screate_simple(2, dims.data(), nullptr)), row_space(H5Screate_simple(1, &dims[1], nullptr));
    journal.note(file.name + ":" + path + " " + element_name(element) + to_text(dims));
    for (hsize_t row = 0; row < dims[0]; ++row) {
        // Through another driver the source file would be a second, unrelated open file.
        const bool reachable = file.driver <= Driver::kPosix && program.file_of(*other).driver <= Driver::kPosix;
        Handle* home = !reachable || random.chance(70) ? handle : other;
        FileState& source = program.file_of(*home);
        const std::string from = program.new_path(source, 'd', element, random);
        const Dims start{row, 0}, count{1, dims[1]};
        const Id target(H5Scopy(whole.get()));
        H5Sselect_hyperslab(target.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
        const std::string where = &source == &file ? "." : source.name;
        journal.call("map", H5Pset_virtual(creation.get(), target.get(), where.c_str(), from.c_str(), row_space.get()));
        if (random.chance(15)) continue;   // missing
        const Id dataset(H5Dcreate2(home->id.get(), from.c_str(), type.get(), row_space.get(), links.get(), H5P_DEFAULT,
                                    H5P_DEFAULT));
        journal.note(source.name + ":" + from);
        if (!journal.call("source", dataset.get())) continue;
        source.datasets.push_back(from);
        Transfer all;
        all.buffer_elements = dims[1];
        if (random.chance(80)) program.write(dataset.get(), element, all, random);
    }
    const Id dataset(H5Dcreate2(handle->id.get(), path.c_str(), type.get(), whole.get(), links.get(), creation.get(),
                                H5P_DEFAULT));
    if (!journal.call("create", dataset.get())) return;
    file.datasets.push_back(path);
    for (const bool writing : {false, random.chance(40)}) {
        const Transfer transfer = random_transfer(dims, random, program.elements_max(element));
        journal.note(transfer.text);
        if (writing) program.write(dataset.get(), element, transfer, random);
        else program.read(dataset.get(), element, transfer);
    }
}

// Several datasets in one call.
void transfer_many(Program& program, Random& random) {
    constexpr std::size_t kMany = 3;
    auto& held = program.held();
    std::vector<const HeldDataset*> chosen;   // each once, and no heap data: HDF5 defines no order between them
    for (const auto& one : held)
        if (!owns_memory(one.element) &&
            std::ranges::none_of(chosen, [&](auto* other) { return other->element == one.element; }))
            chosen.push_back(&one);
    if (chosen.size() < kMany) return read_some(program, random);
    std::vector<hid_t> datasets, types, memory, file;
    std::vector<Transfer> transfers;
    std::vector<Id> owned;
    std::vector<const void*> sources;
    std::vector<void*> targets;
    std::vector<std::unique_ptr<Values>> values;
    std::vector<std::unique_ptr<ReadBuffer>> buffers;
    const bool writing = random.chance(50);
    for (std::size_t i = 0; i < kMany; ++i) {
        const HeldDataset& one = *chosen[i];
        transfers.push_back(random_transfer(extent_of(one.id.get()), random, program.elements_max(one.element)));
        program.journal().note(one.path + ":" + transfers.back().text);
        types.push_back(owned.emplace_back(memory_type(one.element)).get());
        datasets.push_back(one.id.get());
        memory.push_back(transfers.back().memory());
        file.push_back(transfers.back().file());
        values.push_back(std::make_unique<Values>(one.element, transfers.back().buffer_elements, random, one.id.get(),
                                                  program.files()[0].datasets));
        buffers.push_back(std::make_unique<ReadBuffer>(one.element, transfers.back().buffer_elements));
        sources.push_back(values.back()->data());
        targets.push_back(buffers.back()->data());
    }
    Journal& journal = program.journal();
    if (writing) {
        journal.call("write-multi", H5Dwrite_multi(kMany, datasets.data(), types.data(), memory.data(), file.data(),
                                                   H5P_DEFAULT, sources.data()));
    } else if (journal.call("read-multi", H5Dread_multi(kMany, datasets.data(), types.data(), memory.data(),
                                                        file.data(), H5P_DEFAULT, targets.data()))) {
        for (const auto& buffer : buffers) journal.digest("data", buffer->digest());
    }
}

// The asynchronous interface, which completes at once where the connector is not asynchronous.
void transfer_with_event_set(Program& program, Random& random) {
    HeldDataset* dataset = program.some_dataset(random, true);
    if (dataset == nullptr) return;
    Journal& journal = program.journal();
    const Element element = dataset->element;
    const Transfer transfer = random_transfer(extent_of(dataset->id.get()), random, program.elements_max(element));
    const Id type = memory_type(element), set(H5EScreate());
    Values values(element, transfer.buffer_elements, random, dataset->id.get(), program.files()[0].datasets);
    journal.note(transfer.text);
    journal.call("write-async", H5Dwrite_async(dataset->id.get(), type.get(), transfer.memory(), transfer.file(),
                                               H5P_DEFAULT, values.data(), set.get()));
    std::size_t left = 0;
    hbool_t failed = false;
    journal.call("wait", H5ESwait(set.get(), H5ES_WAIT_FOREVER, &left, &failed));
    journal.value("failed", failed);
    program.read(dataset->id.get(), element, transfer);
    program.done_with(dataset, random);
}

}   // namespace

std::vector<Operation> dataset_operations() {
    return {
        {"create_dataset", 26, create_dataset},
        {"write_some", 22, write_some},
        {"read_some", 20, read_some},
        {"read_whole", 10, read_whole},
        {"append_steps", 8, append_steps},
        {"small_writes", 5, small_writes},
        {"change_extent", 10, change_extent},
        {"flush_or_refresh", 4, flush_or_refresh},
        {"dataset_facts", 5, dataset_facts},
        {"burst", 8, burst},
        {"create_virtual", 3, create_virtual},
        {"transfer_many", 4, transfer_many},
        {"transfer_with_event_set", 2, transfer_with_event_set},
    };
}

}   // namespace differential
