// Files, transfers and comparing; the operations are in oracle_operations.cc.
#include "oracle_program.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "decomposition.h"

namespace oracle {
namespace {

using differential::Decomposition;
using differential::product;
using differential::to_text;

// What a read must leave alone.
constexpr std::byte kUntouched{0xA5};
constexpr int kExitWrong = 3;
constexpr std::uint64_t kMismatchesTold = 5;

std::size_t selected(hid_t space) {
    return static_cast<std::size_t>(std::max<hssize_t>(H5Sget_select_npoints(space), 0));
}

}   // namespace

Program::Program(const Options& options, const std::vector<MPI_Comm>& communicators)
    : options_(options), communicators_(communicators) {
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

std::uint64_t Program::run() {
    Random random(options_.seed, 0x10FF);
    const std::uint64_t count = std::min<std::uint64_t>(random.between(8, 40), options_.operations_max);
    for (File& file : files_) {
        Random own(options_.seed, 0xF11E);
        open(file, own, true, true);
    }
    for (std::uint64_t index = 0; index < count; ++index)
        if (!options_.skipped.contains(index)) run_operation(index);
    told_ = "finish";
    finish();
    return wrong_;
}

void Program::run_operation(std::uint64_t index) {
    Random random(options_.seed, index + 1);
    operation_ = index;
    std::uint64_t weight = 0;
    const auto allowed = [this](const Operation& one) { return options_.without.contains(one.name) ? 0U : one.weight; };
    for (const auto& one : operations()) weight += one.weight;
    // Leaving a kind out changes no other choice: what would have been of that kind is a write.
    std::uint64_t choice = index == 0 ? 0 : random.below(weight);
    const Operation* operation = operations().data();
    while (choice >= operation->weight) choice -= (operation++)->weight;
    if (allowed(*operation) == 0) operation = operations().data();
    told_.clear();
    say(std::to_string(index) + " " + operation->name + ":");
    (this->*operation->run)(random);
}

void Program::say(const std::string& what) {
    told_ += (told_.empty() ? "" : " ") + what;
    if (options_.trace && rank_ == 0) std::fprintf(stderr, "%" PRIu64 ": %s\n", options_.seed, what.c_str());
}

void Program::need(bool succeeded, const char* call) {
    if (succeeded) return;
    std::fprintf(stderr, "seed %" PRIu64 ", rank %zu: %s failed in: %s\n", options_.seed, rank_, call, told_.c_str());
    H5Eprint2(H5E_DEFAULT, stderr);
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, kExitWrong);
    std::abort();
}

// ---- files ----------------------------------------------------------------------------------------------

void Program::open(File& file, Random& random, bool create, bool writable) {
    const Id access(H5Pcreate(H5P_FILE_ACCESS)), creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_fapl_mpio(access.get(), random.pick(communicators_), MPI_INFO_NULL);
    const auto low = random.pick({H5F_LIBVER_EARLIEST, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18, H5F_LIBVER_V110,
                                  H5F_LIBVER_LATEST});
    H5Pset_libver_bounds(access.get(), low, H5F_LIBVER_LATEST);
    if (random.chance(20))
        H5Pset_alignment(access.get(), random.pick<hsize_t>({1, 100, 4000}), random.pick<hsize_t>({8, 512, 65536}));
    if (random.chance(20)) H5Pset_meta_block_size(access.get(), random.pick<hsize_t>({0, 64, 65536}));
    file.together = random.chance(15);
    if (file.together) H5Pset_all_coll_metadata_ops(access.get(), true);
    if (random.chance(35)) H5Pset_coll_metadata_write(access.get(), true);
    if (random.chance(15)) H5Pset_userblock(creation.get(), 65536);
    if (random.chance(25)) {
        const auto strategy = random.pick({H5F_FSPACE_STRATEGY_FSM_AGGR, H5F_FSPACE_STRATEGY_PAGE,
                                           H5F_FSPACE_STRATEGY_AGGR, H5F_FSPACE_STRATEGY_NONE});
        H5Pset_file_space_strategy(creation.get(), strategy, false, 1);
        H5Pset_file_space_page_size(creation.get(), random.pick<hsize_t>({512, 4096}));
    }
    file.id = create ? Id(H5Fcreate(file.name.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()))
                     : Id(H5Fopen(file.name.c_str(), writable ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access.get()));
    need(file.id.valid(), create ? "H5Fcreate" : "H5Fopen");
    file.writable = writable;
    file.atomic = false;
}

void Program::close(File& file, Random& random) {
    settle_if(touched(file), file, random);
    for (Dataset& dataset : file.datasets)
        if (dataset.held.valid()) need(dataset.held.close() >= 0, "H5Dclose");
    need(file.id.close() >= 0, "H5Fclose");
}

bool Program::touched(const File& file) {
    return std::ranges::any_of(file.datasets, [](const Dataset& dataset) { return dataset.read || dataset.written; });
}

void Program::settle_if(bool needed, File& file, Random& random) {
    // All draw alike whether or not it is needed, and it is the same on all.
    const bool anyway = random.chance(10);
    if (needed || anyway) settle(file, random);
}

void Program::settle(File& file, Random& random) {
    const bool flushes = (options_.between_nodes && !file.atomic) || random.chance(15);
    if (flushes && file.writable) need(H5Fflush(file.id.get(), H5F_SCOPE_LOCAL) >= 0, "H5Fflush");
    MPI_Barrier(MPI_COMM_WORLD);
    say(flushes && file.writable ? "| flush" : "|");
    for (Dataset& dataset : file.datasets) dataset.read = dataset.written = false;
}

void Program::hold(const File& file, Dataset& dataset) {
    if (!dataset.held.valid()) dataset.held = Id(H5Dopen2(file.id.get(), dataset.path.c_str(), H5P_DEFAULT));
    need(dataset.held.valid(), "H5Dopen");
}

Dataset* Program::some_dataset(File& file, Random& random) {
    return some_dataset(file, random, [](const Dataset&) { return true; });
}

void Program::done_with(Dataset& dataset, Random& random) {
    if (random.chance(50)) need(dataset.held.close() >= 0, "H5Dclose");
}

// ---- transfers ------------------------------------------------------------------------------------------

std::vector<Id> Program::parts_of(const Dataset& dataset, bool whole, Random& random) {
    const Dims& dims = dataset.content.dims();
    const Decomposition parts = whole ? Decomposition::covering(dims, ranks_, random)
                                      : Decomposition(dims, ranks_, random);
    std::vector<Id> spaces;
    say(parts.text());
    for (std::size_t rank = 0; rank < ranks_; ++rank) spaces.push_back(parts.part(rank));
    return spaces;
}

// In memory the elements are as in the file, or 64-bit integers that HDF5 converts, side by side or with gaps. HDF5
// does not convert in a call that has filtered datasets.
Program::Transfer Program::prepare(const Dataset& dataset, Id space, Random& random, bool may_convert) {
    const bool convert = random.chance(25) && may_convert && !dataset.filtered(), spread = random.chance(20);
    Transfer mine;
    mine.at = positions(space.get());
    mine.type = convert ? H5T_NATIVE_INT64 : file_type(dataset.number);
    mine.step = spread ? 2 : 1;
    const hsize_t count = std::max<std::size_t>(mine.at.size(), 1), extent = count * mine.step, start = 0,
                  stride = mine.step;
    mine.memory = Id(H5Screate_simple(1, &extent, nullptr));
    if (mine.at.empty()) H5Sselect_none(mine.memory.get());
    else H5Sselect_hyperslab(mine.memory.get(), H5S_SELECT_SET, &start, &stride, &count, nullptr);
    mine.space = std::move(space);
    mine.buffer.assign(extent * H5Tget_size(mine.type), kUntouched);
    if (convert) say("(converting)");
    if (spread) say("(spread)");
    return mine;
}

void Program::plan_write(Dataset& dataset, const std::vector<Id>& parts, Transfer& mine, Random& random) {
    const std::uint64_t stamp = random.next();
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        Random own(stamp, rank);
        // A transfer's space has moved out of its part.
        const std::vector<std::size_t> at = rank == rank_ ? mine.at : positions(parts[rank].get());
        for (const std::size_t position : at) dataset.content.set(position, fitted(dataset.number, own.next()));
    }
    dataset.written = true;
    fill_buffer(dataset, mine);
}

void Program::fill_buffer(const Dataset& dataset, Transfer& mine) {
    std::vector<std::int64_t> values(mine.at.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = dataset.content.value(mine.at[i]);
    if (!values.empty() && corrupts()) values.back() ^= 1;
    const std::size_t size = H5Tget_size(mine.type);
    need(H5Tconvert(H5T_NATIVE_INT64, mine.type, values.size(), values.data(), nullptr, H5P_DEFAULT) >= 0,
         "H5Tconvert");
    const auto* const from = reinterpret_cast<const std::byte*>(values.data());
    for (std::size_t i = 0; i < values.size(); ++i)
        std::memcpy(mine.buffer.data() + i * mine.step * size, from + i * size, size);
}

void Program::compare(const Dataset& dataset, Transfer& mine) {
    const std::size_t size = H5Tget_size(mine.type);
    std::vector<std::int64_t> values(mine.at.size());
    auto* const to = reinterpret_cast<std::byte*>(values.data());
    bool gaps_changed = false;
    for (std::size_t i = 0; i < mine.at.size(); ++i) {
        const std::byte* const from = mine.buffer.data() + i * mine.step * size;
        std::memcpy(to + i * size, from, size);
        if (mine.step > 1)
            gaps_changed = gaps_changed ||
                           std::any_of(from + size, from + 2 * size, [](std::byte one) { return one != kUntouched; });
    }
    need(H5Tconvert(mine.type, H5T_NATIVE_INT64, values.size(), values.data(), nullptr, H5P_DEFAULT) >= 0,
         "H5Tconvert");
    std::uint64_t wrong = gaps_changed ? 1 : 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t at = mine.at[i];
        if (!dataset.content.known(at) || values[i] == dataset.content.value(at)) continue;
        if (++wrong <= kMismatchesTold)
            std::fprintf(stderr,
                         "seed %" PRIu64 ", rank %zu: %s element %zu of %s: read %" PRId64 ", expected %" PRId64 "\n",
                         options_.seed, rank_, dataset.path.c_str(), at, to_text(dataset.content.dims()).c_str(),
                         values[i], dataset.content.value(at));
    }
    if (wrong > 0)
        std::fprintf(stderr, "seed %" PRIu64 ", rank %zu: %" PRIu64 " wrong in: %s\n", options_.seed, rank_, wrong,
                     told_.c_str());
    wrong_ += wrong;
}

Id Program::transfer_list(bool collective, bool filtered, Random& random) {
    Id list(H5Pcreate(H5P_DATASET_XFER));
    H5Pset_dxpl_mpio(list.get(), collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    if (collective && random.chance(15)) {
        // Not H5FD_MPIO_CHUNK_MULTI_IO: HDF5 1.14 then reads some wrong elements, natively too.
        H5Pset_dxpl_mpio_chunk_opt(list.get(), H5FD_MPIO_CHUNK_ONE_IO);
        say("(one-io)");
    }
    if (collective && !filtered && random.chance(10)) {
        H5Pset_dxpl_mpio_collective_opt(list.get(), H5FD_MPIO_INDIVIDUAL_IO);
        say("(individual-io)");
    }
    return list;
}

void Program::write_parts(const File& file, Dataset& dataset, const std::vector<Id>& parts, bool collective,
                          Random& random) {
    collective = collective || dataset.filtered() || file.together;
    Transfer mine = prepare(dataset, Id(H5Scopy(parts[rank_].get())), random);
    const Id list = transfer_list(collective, dataset.filtered(), random);
    plan_write(dataset, parts, mine, random);
    say(collective ? "write collectively" : "write");
    if (random.chance(50) && mine.at.empty() && !collective) return;
    need(H5Dwrite(dataset.held.get(), mine.type, mine.memory.get(), mine.space.get(), list.get(), mine.buffer.data()) >=
             0,
         "H5Dwrite");
}

void Program::read_parts(const File& file, Dataset& dataset, const std::vector<Id>& parts, bool collective,
                         Random& random) {
    // A rank's chunk cache would not learn of what others write.
    collective = collective || dataset.filtered() || file.together;
    Transfer mine = prepare(dataset, Id(H5Scopy(parts[rank_].get())), random);
    const Id list = transfer_list(collective, dataset.filtered(), random);
    dataset.read = true;
    say(collective ? "read collectively" : "read");
    need(H5Dread(dataset.held.get(), mine.type, mine.memory.get(), mine.space.get(), list.get(), mine.buffer.data()) >=
             0,
         "H5Dread");
    compare(dataset, mine);
}

// Each rank writes and reads what it owns, as often as it likes. The others only take note of what it has written at
// last.
void Program::act_alone(const File& file, Dataset& dataset, const std::vector<Id>& owned, Random& random) {
    const std::uint64_t stream = random.next();
    if (file.together) return;   // a rank alone would ask the others for metadata, natively too
    dataset.read = dataset.written = true;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
        Random own(stream, rank);
        Dims start(dataset.content.dims().size()), end(start.size());
        if (selected(owned[rank].get()) == 0) continue;
        need(H5Sget_select_bounds(owned[rank].get(), start.data(), end.data()) >= 0, "H5Sget_select_bounds");
        Dims count(start.size());
        for (std::size_t d = 0; d < start.size(); ++d) count[d] = end[d] - start[d] + 1;
        const std::uint64_t calls = own.skewed(1, 24);
        for (std::uint64_t call = 0; call < calls; ++call) {
            const bool writes = own.chance(60);
            Transfer mine = prepare(dataset, random_selection(dataset.content.dims(), start, count, own), own);
            if (writes)
                for (const std::size_t at : mine.at) dataset.content.set(at, fitted(dataset.number, own.next()));
            if (rank != rank_) continue;
            const hid_t held = dataset.held.get(), memory = mine.memory.get(), space = mine.space.get();
            if (writes) {
                fill_buffer(dataset, mine);
                need(H5Dwrite(held, mine.type, memory, space, H5P_DEFAULT, mine.buffer.data()) >= 0, "H5Dwrite alone");
            } else {
                need(H5Dread(held, mine.type, memory, space, H5P_DEFAULT, mine.buffer.data()) >= 0, "H5Dread alone");
                compare(dataset, mine);
            }
        }
    }
    say("alone");
}

void Program::write_whole(const File& file, Dataset& dataset, Random& random) {
    if (dataset.layout != Layout::kCompact)
        return write_parts(file, dataset, parts_of(dataset, true, random), random.chance(50), random);
    // It lies in the object's header, which all ranks have: all write the same.
    std::vector<Id> parts(ranks_);
    const Dims& dims = dataset.content.dims();
    parts[rank_] = Id(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    Transfer mine = prepare(dataset, std::move(parts[rank_]), random);
    const std::uint64_t stamp = random.next();
    Random values(stamp);
    for (const std::size_t at : mine.at) dataset.content.set(at, fitted(dataset.number, values.next()));
    dataset.written = true;
    fill_buffer(dataset, mine);
    const Id list = transfer_list(random.chance(50) || file.together, false, random);
    say("write all alike");
    need(H5Dwrite(dataset.held.get(), mine.type, mine.memory.get(), mine.space.get(), list.get(), mine.buffer.data()) >=
             0,
         "H5Dwrite compact");
}

void Program::transfer(const File& file, const std::vector<Dataset*>& chosen, Random& random) {
    const bool any_filtered = std::ranges::any_of(chosen, [](const Dataset* one) { return one->filtered(); });
    const bool collective = any_filtered || file.together || random.chance(60), writes = random.chance(60);
    std::vector<Transfer> mine;
    std::vector<hid_t> datasets, types, memories, spaces;
    for (Dataset* const dataset : chosen) {
        const std::vector<Id> parts = parts_of(*dataset, false, random);
        Transfer& one = mine.emplace_back(prepare(*dataset, Id(H5Scopy(parts[rank_].get())), random, !any_filtered));
        if (writes) plan_write(*dataset, parts, one, random);
        else dataset->read = true;
        datasets.push_back(dataset->held.get());
        types.push_back(one.type);
        memories.push_back(one.memory.get());
        spaces.push_back(one.space.get());
    }
    const Id list = transfer_list(collective, any_filtered, random);
    say(std::string(writes ? "write" : "read") + (collective ? " several collectively" : " several"));
    std::vector<const void*> sources;
    std::vector<void*> targets;
    for (Transfer& one : mine) {
        sources.push_back(one.buffer.data());
        targets.push_back(one.buffer.data());
    }
    if (writes)
        return need(H5Dwrite_multi(chosen.size(), datasets.data(), types.data(), memories.data(), spaces.data(),
                                   list.get(), sources.data()) >= 0,
                    "H5Dwrite_multi");
    need(H5Dread_multi(chosen.size(), datasets.data(), types.data(), memories.data(), spaces.data(), list.get(),
                       targets.data()) >= 0,
         "H5Dread_multi");
    for (std::size_t i = 0; i < chosen.size(); ++i) compare(*chosen[i], mine[i]);
}

void Program::check_attributes(const Dataset& dataset) {
    for (const auto& [name, values] : dataset.attributes) {
        const Id attribute(H5Aopen(dataset.held.get(), name.c_str(), H5P_DEFAULT));
        need(attribute.valid(), "H5Aopen");
        std::vector<std::int32_t> found(values.size());
        need(H5Aread(attribute.get(), H5T_NATIVE_INT32, found.data()) >= 0, "H5Aread");
        if (found == values) continue;
        ++wrong_;
        std::fprintf(stderr, "seed %" PRIu64 ", rank %zu: attribute %s of %s is wrong\n", options_.seed, rank_,
                     name.c_str(), dataset.path.c_str());
    }
}

// Every rank reads everything.
void Program::check_everything(File& file, Random& random) {
    for (Dataset& dataset : file.datasets) {
        before_reading(file, dataset, random);
        hold(file, dataset);
        std::vector<Id> parts(ranks_);
        const Dims& dims = dataset.content.dims();
        parts[rank_] = Id(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
        say(dataset.path);
        read_parts(file, dataset, parts, random.chance(50), random);
        check_attributes(dataset);
    }
}

void Program::finish() {
    Random random(options_.seed, 0xF111);
    std::vector<Expected> expected;
    for (File& file : files_) {
        close(file, random);
        open(file, random, false, false);
        check_everything(file, random);
        close(file, random);
        expected.push_back({file.name, &file.datasets, &file.groups});
    }
    need(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 0, "everything is closed");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) need(write_expected("expected", expected), "writing what is expected");
}

}   // namespace oracle
