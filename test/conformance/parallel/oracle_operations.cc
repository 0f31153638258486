// The operations of a random program: oracle_program.h.
#include <algorithm>
#include <functional>

#include "decomposition.h"
#include "oracle_program.h"

namespace oracle {
namespace {

using differential::product;
using differential::to_text;

constexpr std::size_t kDatasetsMax = 12, kGroupsMax = 8, kCompactElementsMax = 200;

Dims random_dims(Random& random, std::size_t elements_max) {
    Dims dims(random.between(1, 3));
    std::size_t room = elements_max;
    for (auto& extent : dims) {
        extent = random.between(1, std::min<std::size_t>(room, dims.size() == 1 ? room : room / 2 + 1));
        if (dims.size() > 1 && random.chance(60)) extent = std::min<hsize_t>(extent, 90);
        room = std::max<std::size_t>(room / extent, 1);
    }
    return dims;
}

// HDF5 1.14 frees filtered chunks twice when ranks rewrite them below a finite limit that lies beyond the extent. A
// layout that was made serially must not grow: HDF5 allocates its new chunks when they are written, on one rank only
// where that writes alone.
void choose_chunks(Dataset& dataset, const Dims& dims, bool serial, Random& random) {
    for (const auto extent : dims)
        dataset.chunk.push_back(random.between(std::max<hsize_t>(extent / 6, 1),
                                               dataset.filtered() ? extent : std::max<hsize_t>(extent, 4)));
    for (auto& most : dataset.limit)
        if (random.chance(60) && !serial) most = dataset.filtered() || random.chance(70) ? H5S_UNLIMITED : most * 2 + 3;
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (dataset.limit[d] != H5S_UNLIMITED) dataset.chunk[d] = std::min(dataset.chunk[d], dataset.limit[d]);
}

// HDF5 1.14 cannot share out filtered chunks that are larger than the extent; and when an extent shrinks, each rank
// alone reads, refills and writes the filtered chunks that the new edge cuts, all at once.
void keep_chunks_whole(Dims& dims, const Dataset& dataset) {
    const Dims& before = dataset.content.dims();
    for (std::size_t d = 0; d < dims.size(); ++d) {
        dims[d] = std::max(dims[d], dataset.chunk[d]);
        if (dims[d] < before[d])
            dims[d] = std::min(before[d], (dims[d] + dataset.chunk[d] - 1) / dataset.chunk[d] * dataset.chunk[d]);
    }
}

bool is_plain(const Dataset& dataset) { return !dataset.filtered() && dataset.layout != Layout::kCompact; }

}   // namespace

const std::vector<Program::Operation>& Program::operations() {
    using P = Program;
    static const std::vector<Operation> table{
        {"create", 14, &P::create_dataset},
        {"write", 18, &P::write_together},
        {"read", 12, &P::read_together},
        {"alone", 18, &P::write_alone},
        {"many", 5, &P::transfer_many},
        {"mixed", 5, &P::transfer_mixed},
        {"extent", 7, &P::change_extent},
        {"append", 6, &P::append_steps},
        {"delete", 9, &P::delete_and_reuse},
        {"unnamed", 5, &P::use_unnamed},
        {"copy", 4, &P::copy_object},
        {"move", 2, &P::move_object},
        {"groups", 3, &P::create_groups},
        {"attributes", 6, &P::change_attributes},
        {"flush", 6, &P::flush},
        {"reopen", 5, &P::reopen},
        {"look", 4, &P::reopen_for_reading},
        {"serial", 4, &P::lay_out_serially},
        {"atomic", 1, &P::set_atomic},
    };
    return table;
}

// ---- datasets -------------------------------------------------------------------------------------------

Dataset Program::choose_dataset(const File& file, Random& random, bool serial) {
    Dataset dataset;
    dataset.number = static_cast<Number>(random.below(static_cast<std::uint64_t>(Number::kCount)));
    const auto kind = random.below(100);
    dataset.layout = kind < 40             ? Layout::kContiguous
                     : kind < 65           ? Layout::kChunked
                     : kind < 93 || serial ? Layout::kFiltered
                                           : Layout::kCompact;
    const std::string parent = file.groups.empty() || random.chance(60) ? "" : random.pick(file.groups);
    dataset.path = parent + "/d" + std::to_string(names_++);
    const bool compact = dataset.layout == Layout::kCompact;
    const Dims dims = random_dims(random, compact ? std::min(elements_max_, kCompactElementsMax) : elements_max_);
    dataset.limit = dims;
    if (dataset.chunked()) choose_chunks(dataset, dims, serial, random);
    dataset.content.resize(dims, std::nullopt);
    return dataset;
}

// What the list says of fill values decides what is known of elements that nobody has written.
Id Program::creation_list(Dataset& dataset, Random& random, bool serial) {
    Id creation(H5Pcreate(H5P_DATASET_CREATE));
    if (dataset.chunked()) H5Pset_chunk(creation.get(), static_cast<int>(dataset.chunk.size()), dataset.chunk.data());
    if (dataset.layout == Layout::kCompact) H5Pset_layout(creation.get(), H5D_COMPACT);
    if (dataset.filtered()) {
        if (random.chance(40)) H5Pset_shuffle(creation.get());
        if (random.chance(70)) H5Pset_deflate(creation.get(), static_cast<unsigned>(random.between(1, 6)));
        else H5Pset_fletcher32(creation.get());
    }
    const auto time = random.pick({H5D_FILL_TIME_IFSET, H5D_FILL_TIME_IFSET, H5D_FILL_TIME_ALLOC, H5D_FILL_TIME_NEVER});
    H5Pset_fill_time(creation.get(), time);
    if (!serial && dataset.layout != Layout::kCompact && random.chance(50))
        H5Pset_alloc_time(creation.get(),
                          random.pick({H5D_ALLOC_TIME_EARLY, H5D_ALLOC_TIME_LATE, H5D_ALLOC_TIME_INCR}));
    const std::int64_t value = fitted(dataset.number, random.next());
    const bool valued = random.chance(40);
    if (valued) need(H5Pset_fill_value(creation.get(), H5T_NATIVE_INT64, &value) >= 0, "H5Pset_fill_value");
    // At H5D_FILL_TIME_IFSET, HDF5 fills chunks also with the default value, but other storage only with one that was
    // set.
    const bool fills = time == H5D_FILL_TIME_ALLOC || (time == H5D_FILL_TIME_IFSET && (valued || dataset.chunked()));
    if (fills) dataset.fill = valued ? value : 0;
    dataset.content.resize(Dims(dataset.limit.size(), 0), dataset.fill);
    return creation;
}

void Program::create_dataset(Random& random) {
    File& file = some_file(random);
    if (file.datasets.size() >= kDatasetsMax) return write_together(random);
    Dataset dataset = choose_dataset(file, random, false);
    fresh_dataset(file, dataset, random);
    done_with(file.datasets.emplace_back(std::move(dataset)), random);
}

// Makes the dataset under its name, or without one if it has none, and may write it.
void Program::fresh_dataset(File& file, Dataset& dataset, Random& random) {
    const Dims dims = dataset.content.dims();
    const Id creation = creation_list(dataset, random, false);
    dataset.content.resize(dims, dataset.fill);
    static constexpr const char* kNames[] = {"contiguous", "chunked", "filtered", "compact"};
    say(file.name + dataset.path + " " + kNames[static_cast<std::size_t>(dataset.layout)] + " " +
        number_name(dataset.number) + to_text(dims) + "chunk" + to_text(dataset.chunk) + "max" +
        to_text(dataset.limit) + (dataset.fill ? "fill " + std::to_string(*dataset.fill) : "no fill"));
    const Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), dataset.limit.data()));
    dataset.held = dataset.path.empty() ? Id(H5Dcreate_anon(file.id.get(), file_type(dataset.number), space.get(),
                                                            creation.get(), H5P_DEFAULT))
                                        : Id(H5Dcreate2(file.id.get(), dataset.path.c_str(), file_type(dataset.number),
                                                        space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT));
    need(dataset.held.valid(), "H5Dcreate");
    // A collective read of filtered chunks of which none is stored hangs in HDF5 1.14 if a rank asks for nothing.
    if (dataset.filtered() || random.chance(50)) write_whole(file, dataset, random);
    else if (random.chance(40) && is_plain(dataset))
        write_parts(file, dataset, parts_of(dataset, false, random), random.chance(50), random);
}

void Program::write_together(Random& random) {
    File& file = some_file(random);
    Dataset* const dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    const auto times = random.pick({1, 1, 2, 4});
    for (int i = 0; i < times; ++i) {   // each time other ranks overwrite what was written
        before_writing(file, *dataset, random);
        if (!is_plain(*dataset) && dataset->layout == Layout::kCompact) {
            write_whole(file, *dataset, random);
            continue;
        }
        const bool collective = random.chance(50), read_again = random.chance(30);
        const std::vector<Id> parts = parts_of(*dataset, random.chance(30), random);
        write_parts(file, *dataset, parts, collective, random);
        // What a rank has written by itself it sees at once.
        if (read_again && !collective && is_plain(*dataset) && !file.together)
            read_parts(file, *dataset, parts, false, random);
    }
    done_with(*dataset, random);
}

void Program::read_together(Random& random) {
    File& file = some_file(random);
    Dataset* const dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    before_reading(file, *dataset, random);
    read_parts(file, *dataset, parts_of(*dataset, random.chance(40), random), random.chance(50), random);
    if (random.chance(30)) check_attributes(*dataset);
    done_with(*dataset, random);
}

// Every rank owns a part of each of several datasets, and does with it what it likes, while the others do.
void Program::write_alone(Random& random) {
    File& file = some_file(random);
    const auto times = random.between(1, 3);
    for (std::uint64_t i = 0; i < times && !file.together; ++i) {
        Dataset* const dataset = some_dataset(file, random, is_plain);
        if (dataset == nullptr) return;
        before_writing(file, *dataset, random);
        act_alone(file, *dataset, parts_of(*dataset, true, random), random);
    }
}

void Program::transfer_many(Random& random) {
    File& file = some_file(random);
    std::vector<Dataset*> chosen;
    const auto most = random.between(1, 4);
    for (Dataset& dataset : file.datasets)
        if (is_plain(dataset) && chosen.size() < most && random.chance(70)) chosen.push_back(&dataset);
    if (chosen.empty()) return;
    for (Dataset* const dataset : chosen) {
        hold(file, *dataset);
        before_writing(file, *dataset, random);
        say(dataset->path);
    }
    transfer(file, chosen, random);
}

// Filtered and unfiltered ones in one call, in any order.
void Program::transfer_mixed(Random& random) {
    File& file = some_file(random);
    std::vector<Dataset*> chosen;
    for (Dataset& dataset : file.datasets)
        if (dataset.layout != Layout::kCompact) chosen.push_back(&dataset);
    for (std::size_t i = chosen.size(); i > 1; --i) std::swap(chosen[i - 1], chosen[random.below(i)]);
    const auto most = random.between(2, 4);
    if (chosen.size() > most) chosen.resize(most);
    if (std::ranges::none_of(chosen, [](const Dataset* one) { return one->filtered(); })) return;
    for (Dataset* const dataset : chosen) {
        hold(file, *dataset);
        before_writing(file, *dataset, random);
        say(dataset->path + (dataset->filtered() ? " filtered" : ""));
    }
    transfer(file, chosen, random);
}

void Program::append_steps(Random& random) {
    File& file = some_file(random);
    Dataset* const dataset = some_dataset(file, random, [](const Dataset& one) {
        return one.chunked() && one.limit[0] == H5S_UNLIMITED;
    });
    if (dataset == nullptr) return;
    const auto steps = random.between(2, 5);
    for (std::uint64_t step = 0; step < steps && dataset->content.size() < 2 * elements_max_; ++step) {
        before_writing(file, *dataset, random);
        Dims dims = dataset->content.dims();
        dims[0] += random.between(1, 4);
        say(to_text(dims));
        need(H5Dset_extent(dataset->held.get(), dims.data()) >= 0, "H5Dset_extent");
        dataset->content.resize(dims, dataset->fill);
        write_parts(file, *dataset, parts_of(*dataset, random.chance(50), random), random.chance(50), random);
    }
    done_with(*dataset, random);
}

void Program::change_extent(Random& random) {
    File& file = some_file(random);
    Dataset* const dataset = some_dataset(file, random, [](const Dataset& one) { return one.chunked(); });
    if (dataset == nullptr) return;
    const Dims before = dataset->content.dims();
    Dims dims = before;
    const bool shrink = random.chance(55);
    for (auto& extent : dims) {
        if (random.chance(40)) continue;
        extent = shrink ? random.below(extent + 1) : extent + random.below(std::max<hsize_t>(extent, 8) + 1);
    }
    while (product(dims) > 2 * elements_max_) *std::ranges::max_element(dims) /= 2;
    if (dataset->filtered()) keep_chunks_whole(dims, *dataset);
    for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dataset->limit[d] == H5S_UNLIMITED) continue;
        dims[d] = dataset->filtered() ? before[d] : std::min(dims[d], dataset->limit[d]);
    }
    before_freeing(file, random);
    say(to_text(dims));
    need(H5Dset_extent(dataset->held.get(), dims.data()) >= 0, "H5Dset_extent");
    dataset->content.resize(dims, dataset->fill);
    // When an extent shrinks, HDF5 1.14 reads and refills the chunks that the new edge cuts in the chunk cache of every
    // rank, and writes them out late, over what was written past the cache since. Only closing the dataset empties the
    // caches.
    if (!std::ranges::equal(dims, before, std::greater_equal{})) {
        need(dataset->held.close() >= 0, "H5Dclose");
        dataset->written = true;
        settle(file, random);
        return;
    }
    done_with(*dataset, random);
}

// What comes next lies where the deleted data was, while that may still be on its way to the file.
void Program::delete_and_reuse(Random& random) {
    File& file = some_file(random);
    const auto times = random.between(1, 3);
    for (std::uint64_t i = 0; i < times && !file.datasets.empty(); ++i) {
        before_freeing(file, random);
        const auto at = static_cast<std::ptrdiff_t>(random.below(file.datasets.size()));
        const std::string path = file.datasets[static_cast<std::size_t>(at)].path;
        say("delete " + file.name + path);
        file.datasets.erase(file.datasets.begin() + at);
        need(H5Ldelete(file.id.get(), path.c_str(), H5P_DEFAULT) >= 0, "H5Ldelete");
        if (random.chance(70)) create_dataset(random);
    }
}

// A dataset that never had a name, or has lost it, is used; its last close frees its space, and the next one gets that.
void Program::use_unnamed(Random& random) {
    File& file = some_file(random);
    Dataset dataset = choose_dataset(file, random, false);
    const bool never = random.chance(50);
    const std::string path = dataset.path;
    if (never) dataset.path.clear();
    fresh_dataset(file, dataset, random);
    if (!never) need(H5Ldelete(file.id.get(), path.c_str(), H5P_DEFAULT) >= 0, "H5Ldelete");
    say(never ? "unnamed" : "unlinked");
    if (is_plain(dataset)) {
        settle(file, random);
        act_alone(file, dataset, parts_of(dataset, true, random), random);
    }
    settle(file, random);
    read_parts(file, dataset, parts_of(dataset, true, random), random.chance(50), random);
    settle(file, random);
    need(dataset.held.close() >= 0, "H5Dclose of an unnamed dataset");
    if (random.chance(80)) create_dataset(random);
}

// Every rank writes the whole copy.
void Program::copy_object(Random& random) {
    File& from = some_file(random);
    File& to = some_file(random);
    Dataset* const source = some_dataset(from, random);
    if (source == nullptr || to.datasets.size() >= kDatasetsMax) return;
    before_reading(from, *source, random);
    settle(from, random);
    Dataset copy;
    copy.path = "/c" + std::to_string(names_++);
    copy.number = source->number;
    copy.layout = source->layout;
    copy.chunk = source->chunk;
    copy.limit = source->limit;
    copy.fill = source->fill;
    copy.content = source->content;
    copy.attributes = source->attributes;
    say("to " + to.name + copy.path);
    need(H5Ocopy(from.id.get(), source->path.c_str(), to.id.get(), copy.path.c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0,
         "H5Ocopy");
    source->read = copy.written = true;
    done_with(*source, random);
    to.datasets.push_back(std::move(copy));
}

// ---- names, attributes, files ---------------------------------------------------------------------------

void Program::move_object(Random& random) {
    File& file = some_file(random);
    Dataset* const dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    const std::string path = "/m" + std::to_string(names_++);
    need(H5Lmove(file.id.get(), dataset->path.c_str(), file.id.get(), path.c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0,
         "H5Lmove");
    dataset->path = path;
    done_with(*dataset, random);
}

void Program::create_groups(Random& random) {
    File& file = some_file(random);
    const auto times = random.pick({1, 1, 3, 12});
    for (int i = 0; i < times && file.groups.size() < kGroupsMax; ++i) {
        const std::string parent = file.groups.empty() || random.chance(50) ? "" : random.pick(file.groups);
        const std::string& path = file.groups.emplace_back(parent + "/g" + std::to_string(names_++));
        say(file.name + path);
        const Id group(H5Gcreate2(file.id.get(), path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        need(group.valid(), "H5Gcreate");
    }
}

void Program::change_attributes(Random& random) {
    File& file = some_file(random);
    Dataset* const dataset = some_dataset(file, random);
    if (dataset == nullptr) return;
    const auto times = random.pick({1, 2, 10});
    for (int i = 0; i < times; ++i) {
        const std::string name = "attribute" + std::to_string(random.below(12));
        const hid_t object = dataset->held.get();
        const bool there = dataset->attributes.contains(name);
        say(name);
        if (there) need(H5Adelete(object, name.c_str()) >= 0, "H5Adelete");
        dataset->attributes.erase(name);
        if (there && random.chance(35)) continue;
        const hsize_t count = random.chance(85) ? 5 : 500;
        const Id space(H5Screate_simple(1, &count, nullptr));
        const Id attribute(H5Acreate2(object, name.c_str(), H5T_STD_I32BE, space.get(), H5P_DEFAULT, H5P_DEFAULT));
        need(attribute.valid(), "H5Acreate");
        auto& values = dataset->attributes[name];
        for (hsize_t k = 0; k < count; ++k) values.push_back(static_cast<std::int32_t>(random.next()));
        need(H5Awrite(attribute.get(), H5T_NATIVE_INT32, values.data()) >= 0, "H5Awrite");
    }
    check_attributes(*dataset);
    done_with(*dataset, random);
}

void Program::flush(Random& random) {
    File& file = some_file(random);
    say(file.name);
    need(H5Fflush(file.id.get(), random.pick({H5F_SCOPE_LOCAL, H5F_SCOPE_GLOBAL})) >= 0, "H5Fflush");
}

void Program::reopen(Random& random) {
    File& file = some_file(random);
    say(file.name);
    close(file, random);
    MPI_Barrier(MPI_COMM_WORLD);
    open(file, random, false, true);
}

// All ranks together for reading, or one of them alone with HDF5's default driver.
void Program::reopen_for_reading(Random& random) {
    File& file = some_file(random);
    say(file.name);
    close(file, random);
    MPI_Barrier(MPI_COMM_WORLD);
    if (random.chance(50)) {
        open(file, random, false, false);
        check_everything(file, random);
        close(file, random);
    } else if (random.below(ranks_) == rank_) {
        Random own(options_.seed, operation_);
        Id alone(H5Fopen(file.name.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
        need(alone.valid(), "H5Fopen alone");
        for (const Dataset& known : file.datasets) {
            const Id held(H5Dopen2(alone.get(), known.path.c_str(), H5P_DEFAULT));
            need(held.valid(), "H5Dopen alone");
            const Dims& dims = known.content.dims();
            Transfer mine = prepare(known, Id(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr)),
                                    own);
            need(H5Dread(held.get(), mine.type, mine.memory.get(), mine.space.get(), H5P_DEFAULT, mine.buffer.data()) >=
                     0,
                 "H5Dread alone");
            compare(known, mine);
        }
        need(alone.close() >= 0, "H5Fclose alone");
    }
    for (Dataset& dataset : file.datasets) dataset.read = dataset.written = false;
    MPI_Barrier(MPI_COMM_WORLD);
    open(file, random, false, true);
}

// One rank lays datasets out with HDF5's default driver and writes nothing: their storage is made, and filled, when all
// open them.
void Program::lay_out_serially(Random& random) {
    File& file = some_file(random);
    say(file.name);
    close(file, random);
    MPI_Barrier(MPI_COMM_WORLD);
    Id alone(rank_ == 0 ? H5Fopen(file.name.c_str(), H5F_ACC_RDWR, H5P_DEFAULT) : H5I_INVALID_HID);
    need(rank_ != 0 || alone.valid(), "H5Fopen alone");
    const auto count = random.between(1, 3);
    const std::size_t first = file.datasets.size();
    for (std::uint64_t i = 0; i < count && file.datasets.size() < kDatasetsMax; ++i) {
        Dataset dataset = choose_dataset(file, random, true);
        const Dims dims = dataset.content.dims();
        const Id creation = creation_list(dataset, random, true);
        dataset.content.resize(dims, dataset.fill);
        say(dataset.path + to_text(dims) +
            (dataset.filtered()  ? "filtered"
             : dataset.chunked() ? "chunked"
                                 : "contiguous"));
        if (rank_ == 0) {
            const Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), dataset.limit.data()));
            const Id made(H5Dcreate2(alone.get(), dataset.path.c_str(), file_type(dataset.number), space.get(),
                                     H5P_DEFAULT, creation.get(), H5P_DEFAULT));
            need(made.valid(), "H5Dcreate alone");
        }
        file.datasets.push_back(std::move(dataset));
    }
    need(alone.close() >= 0, "H5Fclose alone");
    MPI_Barrier(MPI_COMM_WORLD);
    open(file, random, false, true);
    for (std::size_t i = first; i < file.datasets.size(); ++i) {
        Dataset& dataset = file.datasets[i];
        hold(file, dataset);
        if (dataset.filtered()) write_whole(file, dataset, random);
        else if (random.chance(70))
            write_parts(file, dataset, parts_of(dataset, random.chance(50), random), random.chance(50), random);
    }
}

// MPI's atomic mode, until the file is closed: from now on a barrier is enough also between nodes.
void Program::set_atomic(Random& random) {
    File& file = some_file(random);
    settle(file, random);
    say(file.name);
    need(H5Fset_mpi_atomicity(file.id.get(), true) >= 0, "H5Fset_mpi_atomicity");
    file.atomic = true;
}

}   // namespace oracle
