#include "parallel_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <list>

#include "parallel_choices.h"

namespace differential {
namespace {

constexpr std::size_t kDatasetsMax = 12;
constexpr std::uint64_t kRanksMax = 64;

}   // namespace

ParallelProgram::ParallelProgram(const ParallelOptions& options, const std::vector<MPI_Comm>& communicators,
                                 Journal& journal)
    : options_(options), communicators_(communicators), journal_(journal) {
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rank_ = static_cast<std::size_t>(rank);
    ranks_ = static_cast<std::size_t>(ranks);
    Random random(options.seed);
    elements_max_ = random.pick<std::size_t>({60, 600, 6000, 6000, 60000, 200000});
    for (const char* name : {"a.h5", "b.h5"}) files_.emplace_back().name = name;
    if (random.chance(60)) files_.pop_back();
}

const std::vector<ParallelProgram::Operation>& ParallelProgram::operations() {
    using P = ParallelProgram;
    static const std::vector<Operation> table{
        {"create_dataset", 14, &P::create_dataset},
        {"write_some", 18, &P::write_some},
        {"read_some", 12, &P::read_some},
        {"exchange", 12, &P::exchange},
        {"write_alone", 6, &P::write_alone},
        {"append_steps", 6, &P::append_steps},
        {"change_extent", 7, &P::change_extent},
        {"transfer_many", 4, &P::transfer_many},
        {"delete_and_reuse", 8, &P::delete_and_reuse},
        {"create_group", 4, &P::create_group},
        {"change_attributes", 6, &P::change_attributes},
        {"read_attributes", 3, &P::read_attributes},
        {"flush", 6, &P::flush},
        {"reopen", 5, &P::reopen},
        {"look_alone", 3, &P::look_alone},
    };
    return table;
}

bool ParallelProgram::strikes(Fault fault) {
    if (struck_ || rank_ + 1 != ranks_ || fault != options_.fault || operation_ < options_.fault_at) return false;
    return struck_ = true;
}

void ParallelProgram::run() {
    Random random(options_.seed, 0x10FF);
    const std::uint64_t count = std::min<std::uint64_t>(random.between(6, 32), options_.operations_max);
    journal_.begin_case(options_.seed);
    create_files();
    for (std::uint64_t index = 0; index < count; ++index)
        if (!options_.skipped.contains(index)) run_operation(index);
    finish();
    journal_.end_case();
}

// Whichever operations are left out: what HDF5 says of a file that is missing depends on the driver.
void ParallelProgram::create_files() {
    Random random(options_.seed, 0xF11E);
    for (auto& file : files_) {
        journal_.begin_operation(0, "create_file");
        open(file, random, true, true);
        journal_.end_operation();
    }
}

void ParallelProgram::run_operation(std::uint64_t index) {
    Random random(options_.seed, index + 1);
    operation_ = index;
    if (strikes(Fault::kCrash)) std::abort();
    if (strikes(Fault::kHang)) ::sleep(3600);
    std::uint64_t weight = 0;
    for (const auto& one : operations()) weight += one.weight;
    std::uint64_t choice = random.below(weight);
    const Operation* operation = operations().data();
    while (choice >= operation->weight) choice -= (operation++)->weight;
    if (index == 0) operation = operations().data();
    journal_.begin_operation(index, operation->name);
    (this->*operation->run)(random);
    journal_.end_operation();
}

// ---- files ----------------------------------------------------------------------------------------------

void ParallelProgram::open(SharedFile& file, Random& random, bool create, bool writable) {
    file.communicator = random.pick(communicators_);
    std::string text = file.name;
    const Id access = file_access(file.communicator, random, text, file.metadata_read_together),
             creation = file_creation(random, text);
    journal_.note(text);
    file.id = create ? Id(H5Fcreate(file.name.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()))
                     : Id(H5Fopen(file.name.c_str(), writable ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access.get()));
    file.writable = writable;
    journal_.call(create ? "create" : "open", file.id.get());
}

void ParallelProgram::close(SharedFile& file) {
    for (auto& dataset : file.datasets)
        if (dataset.held.valid()) journal_.call("close-dataset", dataset.held.close());
    settle(file);
    journal_.call("close", file.id.close());
}

void ParallelProgram::settle(SharedFile& file) {
    if (options_.flush_before_reading && file.id.valid() && file.writable)
        journal_.call("flush", H5Fflush(file.id.get(), H5F_SCOPE_GLOBAL));
    if (touched_) MPI_Barrier(MPI_COMM_WORLD);
    touched_ = false;
}

void ParallelProgram::flush(Random& random) {
    SharedFile& file = some_file(random);
    journal_.note(file.name);
    journal_.call("flush", H5Fflush(file.id.get(), random.pick({H5F_SCOPE_LOCAL, H5F_SCOPE_GLOBAL})));
}

void ParallelProgram::reopen(Random& random) {
    SharedFile& file = some_file(random);
    journal_.note(file.name);
    close(file);
    if (random.chance(40)) MPI_Barrier(MPI_COMM_WORLD);
    if (random.chance(40)) {
        open(file, random, false, false);
        for (int i = 0; i < 2; ++i)
            if (SharedDataset* dataset = some_dataset(file, random)) {
                read(file, *dataset, Decomposition(extent_of(dataset->held.get()), ranks_, random), random.chance(50),
                     random);
                done_with(*dataset, random);
            }
        close(file);
    }
    open(file, random, false, true);
}

// One rank alone reads a closed file with HDF5's default driver.
void ParallelProgram::look_alone(Random& random) {
    SharedFile& file = some_file(random);
    journal_.note(file.name);
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (random.below(ranks_) == rank_) {
        Id alone(H5Fopen(file.name.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
        journal_.call("open-alone", alone.get());
        for (const auto& known : file.datasets) {
            SharedDataset dataset{known.path,     known.element,
                                  known.chunk,    known.filtered,
                                  known.unfilled, Id(H5Dopen2(alone.get(), known.path.c_str(), H5P_DEFAULT))};
            if (journal_.call("open", dataset.held.get())) read_whole(dataset, false);
        }
        journal_.call("close-alone", alone.close());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    touched_ = false;
    open(file, random, false, true);
}

void ParallelProgram::finish() {
    journal_.begin_operation(9999, "finish");
    Random random(options_.seed, 0xF111);
    for (auto& file : files_) {
        if (file.id.valid()) close(file);
        open(file, random, false, false);
        for (auto& dataset : file.datasets)
            if (opened(file, dataset)) read_whole(dataset, true);
        close(file);
    }
    journal_.value("left-open", H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL));
    journal_.end_operation();
}

// ---- datasets -------------------------------------------------------------------------------------------

bool ParallelProgram::opened(SharedFile& file, SharedDataset& dataset) {
    if (dataset.held.valid()) return true;
    dataset.held = Id(H5Dopen2(file.id.get(), dataset.path.c_str(), H5P_DEFAULT));
    return journal_.call("open", dataset.held.get());
}

SharedDataset* ParallelProgram::some_dataset(SharedFile& file, Random& random) {
    if (file.datasets.empty()) return nullptr;
    auto& dataset = random.pick(file.datasets);
    journal_.note(file.name + ":" + dataset.path);
    return opened(file, dataset) ? &dataset : nullptr;
}

void ParallelProgram::done_with(SharedDataset& dataset, Random& random) {
    if (random.chance(50)) journal_.call("close", dataset.held.close());
}

void ParallelProgram::create_dataset(Random& random) {
    SharedFile& file = some_file(random);
    if (file.datasets.size() >= kDatasetsMax) return write_some(random);
    SharedDataset dataset;
    dataset.filtered = random.chance(25);
    dataset.element = random_plain_element(dataset.filtered, random);
    dataset.path = random.pick(file.groups);
    if (!dataset.path.ends_with('/')) dataset.path += '/';
    dataset.path += "d" + std::to_string(names_++);
    const Dims dims = random_dims(random, elements_max_);
    Dims limit = dims;
    const Id creation(H5Pcreate(H5P_DATASET_CREATE)), type = file_type(dataset.element);
    std::string text = file.name + ":" + dataset.path + " " + element_name(dataset.element) + to_text(dims);
    if (dataset.filtered || random.chance(45)) choose_chunks(dataset, creation.get(), dims, limit, random, text);
    choose_fill(dataset, creation.get(), random, text);
    journal_.note(text);
    const Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), limit.data()));
    dataset.held = Id(H5Dcreate2(file.id.get(), dataset.path.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                 creation.get(), H5P_DEFAULT));
    if (!journal_.call("create", dataset.held.get())) return;
    // A collective read of filtered chunks of which none is stored hangs in HDF5 1.14 if a rank asks for nothing.
    if (dataset.unfilled || dataset.filtered || random.chance(50))
        write(file, dataset, Decomposition::covering(dims, ranks_, random), random.chance(50), random);
    else if (random.chance(40)) write(file, dataset, Decomposition(dims, ranks_, random), random.chance(50), random);
    done_with(file.datasets.emplace_back(std::move(dataset)), random);
}

void ParallelProgram::write(const SharedFile& file, SharedDataset& dataset, const Decomposition& parts, bool collective,
                            Random& random) {
    collective = collective || dataset.filtered || file.metadata_read_together;
    const Element element = element_in_memory(dataset, random);
    const Id list = transfer_list(collective, dataset.filtered, random), type = memory_type(element),
             space = parts.part(rank_);
    const std::size_t count = selected_count(space.get());
    const Id memory = memory_space(count, random.chance(20));
    journal_.note(parts.text() + (collective ? " collective " : " independent ") + element_name(element));
    // All draw alike, whether they have something to write or not.
    const bool idle_ranks_stay_away = random.chance(50);
    Random own(options_.seed, (operation_ + 1) << 20 | (random.below(1 << 12) * kRanksMax + rank_));
    touched_ = true;
    if (count == 0 && !collective && idle_ranks_stay_away) return;
    Values values(element, extent_count(memory.get()), own, H5I_INVALID_HID, {});
    if (is_number(element) && count > 0 && strikes(Fault::kValue))
        for (auto& byte : values.bytes()) byte ^= std::byte{1};
    journal_.call("write",
                  H5Dwrite(dataset.held.get(), type.get(), memory.get(), space.get(), list.get(), values.data()));
}

void ParallelProgram::read(const SharedFile& file, SharedDataset& dataset, const Decomposition& parts, bool collective,
                           Random& random) {
    collective = collective || file.metadata_read_together ||
                 dataset.filtered;   // a rank's chunk cache would not learn of what others write
    const Element element = element_in_memory(dataset, random);
    const Id list = transfer_list(collective, dataset.filtered, random), type = memory_type(element),
             space = parts.part(rank_);
    const std::size_t count = selected_count(space.get());
    const Id memory = memory_space(count, random.chance(20));
    journal_.note(parts.text() + (collective ? " collective " : " independent ") + element_name(element));
    touched_ = true;
    ReadBuffer buffer(element, extent_count(memory.get()));
    if (journal_.call("read",
                      H5Dread(dataset.held.get(), type.get(), memory.get(), space.get(), list.get(), buffer.data())))
        journal_.digest("data", buffer.digest() ^ (strikes(Fault::kRead) ? 1 : 0));
}

void ParallelProgram::read_whole(SharedDataset& dataset, bool collective) {
    const Dims dims = extent_of(dataset.held.get());
    const Id type = memory_type(dataset.element), list(H5Pcreate(H5P_DATASET_XFER));
    if (collective) H5Pset_dxpl_mpio(list.get(), H5FD_MPIO_COLLECTIVE);
    journal_.note(dataset.path + to_text(dims));
    journal_.value("storage", static_cast<std::int64_t>(H5Dget_storage_size(dataset.held.get())));
    ReadBuffer buffer(dataset.element, product(dims));
    touched_ = true;
    if (journal_.call("read", H5Dread(dataset.held.get(), type.get(), H5S_ALL, H5S_ALL, list.get(), buffer.data())))
        journal_.digest("data", buffer.digest());
}

void ParallelProgram::write_some(Random& random) {
    SharedFile& file = some_file(random);
    SharedDataset* dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    const auto times = random.pick({1, 1, 2, 4});
    for (int i = 0; i < times; ++i) {   // each time other ranks overwrite what was written
        settle(file);
        write(file, *dataset, Decomposition(extent_of(dataset->held.get()), ranks_, random), random.chance(50), random);
        if (random.chance(20)) journal_.call("flush", H5Fflush(file.id.get(), H5F_SCOPE_LOCAL));
    }
    done_with(*dataset, random);
}

void ParallelProgram::read_some(Random& random) {
    SharedFile& file = some_file(random);
    SharedDataset* dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    settle(file);
    if (random.chance(30)) read_whole(*dataset, dataset->filtered || file.metadata_read_together || random.chance(50));
    else read(file, *dataset, Decomposition(extent_of(dataset->held.get()), ranks_, random), random.chance(50), random);
    done_with(*dataset, random);
}

// A step of a simulation: everyone writes, then reads what the neighbours wrote.
void ParallelProgram::exchange(Random& random) {
    SharedFile& file = some_file(random);
    SharedDataset* dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    const Dims dims = extent_of(dataset->held.get());
    const auto steps = random.between(1, 3);
    for (std::uint64_t step = 0; step < steps; ++step) {
        settle(file);
        write(file, *dataset, Decomposition::covering(dims, ranks_, random), random.chance(50), random);
        settle(file);
        read(file, *dataset, Decomposition(dims, ranks_, random), random.chance(50), random);
    }
    done_with(*dataset, random);
}

// One rank writes many small pieces on its own while the others go on to the barrier.
void ParallelProgram::write_alone(Random& random) {
    SharedFile& file = some_file(random);
    SharedDataset* dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    const Dims dims = extent_of(dataset->held.get());
    const std::size_t writer = random.below(ranks_), axis = random.below(dims.size());
    Dims start(dims.size()), count(dims.size(), 1);
    for (std::size_t d = 0; d < dims.size(); ++d) start[d] = random.below(dims[d]);
    const bool together = dataset->filtered || file.metadata_read_together;
    const auto times = together ? 0 : std::min<hsize_t>(random.between(2, 40), product(dims) == 0 ? 0 : dims[axis]);
    settle(file);
    for (hsize_t i = 0; i < times && writer == rank_; ++i) {
        start[axis] = (start[axis] + 1) % dims[axis];
        const Transfer transfer = slab_transfer(dims, start, count);
        Values values(dataset->element, 1, random, H5I_INVALID_HID, {});
        journal_.call("write", H5Dwrite(dataset->held.get(), memory_type(dataset->element).get(), transfer.memory(),
                                        transfer.file(), H5P_DEFAULT, values.data()));
    }
    touched_ = true;
    settle(file);
    if (!together) read_whole(*dataset, false);
    Random after(options_.seed, 0xA107E + operation_);   // the writer has drawn more than the others
    done_with(*dataset, after);
}

void ParallelProgram::append_steps(Random& random) {
    SharedFile& file = some_file(random);
    SharedDataset* dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    Dims dims = extent_of(dataset->held.get());
    const auto steps = random.between(2, 5);
    for (std::uint64_t step = 0; step < steps && dataset->chunked() && product(dims) < 2 * elements_max_; ++step) {
        settle(file);
        dims[0] += random.between(1, 4);
        journal_.note(to_text(dims));
        if (!journal_.call("extend", H5Dset_extent(dataset->held.get(), dims.data()))) break;
        if (dataset->unfilled)
            write(file, *dataset, Decomposition::covering(dims, ranks_, random), random.chance(50), random);
        else write(file, *dataset, Decomposition(dims, ranks_, random), random.chance(50), random);
        if (random.chance(20)) journal_.call("flush", H5Fflush(file.id.get(), H5F_SCOPE_LOCAL));
    }
    done_with(*dataset, random);
}

void ParallelProgram::change_extent(Random& random) {
    SharedFile& file = some_file(random);
    SharedDataset* dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    const Extent before = extents_of(dataset->held.get());
    Dims dims = before.dims;
    const bool shrink = random.chance(55);
    for (auto& extent : dims) {
        if (random.chance(40)) continue;
        extent = shrink ? random.below(extent + 1) : extent + random.below(std::max<hsize_t>(extent, 8) + 1);
    }
    while (product(dims) > 2 * elements_max_) *std::ranges::max_element(dims) /= 2;
    if (dataset->filtered) keep_chunks_whole(dims, before, dataset->chunk);
    settle(file);
    journal_.note(to_text(dims));
    if (!dataset->chunked() || !journal_.call("extent", H5Dset_extent(dataset->held.get(), dims.data())))
        return done_with(*dataset, random);
    // When an extent shrinks, HDF5 1.14 reads and refills the chunks that the new edge cuts in the chunk cache of every
    // rank, and writes them out late, over what was written past the cache since. Only closing the dataset empties the
    // caches.
    if (!std::ranges::equal(dims, before.dims, std::greater_equal{})) {
        touched_ = true;
        journal_.call("close", dataset->held.close());
        settle(file);
        if (!opened(file, *dataset)) return;
    }
    if (dataset->unfilled)
        write(file, *dataset, Decomposition::covering(dims, ranks_, random), random.chance(50), random);
    done_with(*dataset, random);
}

// Two datasets in one call.
void ParallelProgram::transfer_many(Random& random) {
    constexpr std::size_t kMany = 2;
    SharedFile& file = some_file(random);
    std::vector<SharedDataset*> chosen;
    for (auto& dataset : file.datasets)
        if (!dataset.filtered && chosen.size() < kMany && opened(file, dataset)) chosen.push_back(&dataset);
    if (chosen.size() < kMany) return;
    settle(file);
    const Id list = transfer_list(file.metadata_read_together || random.chance(60), false, random);
    const bool writing = random.chance(60);
    std::vector<Id> owned;
    std::vector<hid_t> datasets, types, memories, spaces;
    std::list<Values> values;
    std::list<ReadBuffer> buffers;
    std::vector<const void*> sources;
    std::vector<void*> targets;
    Random own(options_.seed, (operation_ + 1) << 20 | (kRanksMax + rank_));
    for (SharedDataset* dataset : chosen) {
        const Decomposition parts(extent_of(dataset->held.get()), ranks_, random);
        journal_.note(dataset->path + " " + parts.text());
        Id space = parts.part(rank_), type = memory_type(dataset->element);
        const std::size_t count = selected_count(space.get());
        Id memory = memory_space(count, false);
        datasets.push_back(dataset->held.get());
        types.push_back(type.get());
        memories.push_back(memory.get());
        spaces.push_back(space.get());
        const std::size_t elements = extent_count(memory.get());
        sources.push_back(
            values.emplace_back(dataset->element, elements, own, H5I_INVALID_HID, std::vector<std::string>{}).data());
        targets.push_back(buffers.emplace_back(dataset->element, elements).data());
        for (Id* one : {&space, &type, &memory}) owned.push_back(std::move(*one));
    }
    touched_ = true;
    if (writing) {
        journal_.call("write", H5Dwrite_multi(kMany, datasets.data(), types.data(), memories.data(), spaces.data(),
                                              list.get(), sources.data()));
        return;
    }
    if (journal_.call("read", H5Dread_multi(kMany, datasets.data(), types.data(), memories.data(), spaces.data(),
                                            list.get(), targets.data())))
        for (auto& buffer : buffers) journal_.digest("data", buffer.digest());
}

// ---- groups, names, attributes --------------------------------------------------------------------------

void ParallelProgram::forget(SharedFile& file, std::size_t at) {
    if (file.datasets[at].held.valid()) journal_.call("close", file.datasets[at].held.close());
    file.datasets.erase(file.datasets.begin() + static_cast<std::ptrdiff_t>(at));
}

// What comes next lies where the deleted data was, while that may still be on its way to the file.
void ParallelProgram::delete_and_reuse(Random& random) {
    SharedFile& file = some_file(random);
    const auto times = random.between(1, 3);
    for (std::uint64_t i = 0; i < times && !file.datasets.empty(); ++i) {
        settle(file);
        const std::size_t at = random.below(file.datasets.size());
        const std::string path = file.datasets[at].path;
        forget(file, at);
        journal_.note(file.name + ":" + path);
        journal_.call("delete", H5Ldelete(file.id.get(), path.c_str(), H5P_DEFAULT));
        if (random.chance(70)) create_dataset(random);
    }
}

void ParallelProgram::create_group(Random& random) {
    SharedFile& file = some_file(random);
    const auto times = random.pick({1, 1, 3, 12});
    for (int i = 0; i < times; ++i) {
        const std::string parent = random.pick(file.groups),
                          path = (parent == "/" ? "" : parent) + "/g" + std::to_string(names_++);
        journal_.note(file.name + ":" + path);
        Id group(H5Gcreate2(file.id.get(), path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        if (!journal_.call("create", group.get())) return;
        if (file.groups.size() < 8) file.groups.push_back(path);
    }
}

void ParallelProgram::change_attributes(Random& random) {
    SharedFile& file = some_file(random);
    SharedDataset* dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    const auto times = random.pick({1, 2, 10});
    for (int i = 0; i < times; ++i) {
        const std::string name = "attribute" + std::to_string(random.below(12));
        const hid_t object = dataset->held.get();
        journal_.note(name);
        const bool there = H5Aexists(object, name.c_str()) > 0;
        if (there && random.chance(35)) {
            journal_.call("delete", H5Adelete(object, name.c_str()));
            continue;
        }
        const hsize_t count = random.chance(85) ? 5 : 500;
        const Id space(H5Screate_simple(1, &count, nullptr)), type = memory_type(Element::kInt32);
        if (there) journal_.call("delete", H5Adelete(object, name.c_str()));
        Id attribute(H5Acreate2(object, name.c_str(), file_type(Element::kInt32).get(), space.get(), H5P_DEFAULT,
                                H5P_DEFAULT));
        Values values(Element::kInt32, count, random, H5I_INVALID_HID, {});
        if (journal_.call("create", attribute.get()))
            journal_.call("write", H5Awrite(attribute.get(), type.get(), values.data()));
    }
    done_with(*dataset, random);
}

void ParallelProgram::read_attributes(Random& random) {
    SharedFile& file = some_file(random);
    SharedDataset* dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    for (int i = 0; i < 12; ++i) {
        const std::string name = "attribute" + std::to_string(i);
        if (H5Aexists(dataset->held.get(), name.c_str()) <= 0) continue;
        Id attribute(H5Aopen(dataset->held.get(), name.c_str(), H5P_DEFAULT));
        if (!journal_.call("open", attribute.get())) continue;
        const Id space(H5Aget_space(attribute.get()));
        ReadBuffer buffer(Element::kInt32, extent_count(space.get()));
        if (journal_.call("read", H5Aread(attribute.get(), H5T_NATIVE_INT32, buffer.data())))
            journal_.digest("data", buffer.digest());
    }
    done_with(*dataset, random);
}

}   // namespace differential
