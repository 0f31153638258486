/* The layouts of HDF5-IOTEST (HDF5 VOL Status Report, section 3; Breitenfeld, Lee, Knox): 192 ways to lay out the same
 * 2-D arrays in a file, written and read in steps by tiles, one tile per rank.
 *
 *   layouts --file F [--steps 2] [--arrays 2] [--rows 8] [--columns 8] [--alignment 65536] [--metadata-block 2048]
 *           [--first 0] [--count 192]
 *   layouts --file F --verify [the same]
 *
 * Layout i is in the file F.i. The rank of a dataset is 2, 3 or 4: one array of one step; all steps of an array (or all
 * arrays of a step); everything. The slowest dimension is the step or the array. Further: objects aligned or not,
 * contiguous or chunks of one tile, fill values or none, the library version's format earliest or latest, independent
 * or collective. `rows` and `columns` are those of a tile.
 */
#include <sys/stat.h>

#include "kernel.h"

enum { kLayouts = 192 };

struct shape {
    struct ranks ranks;
    uint64_t steps, arrays, rows, columns, alignment, metadata_block, first, count;
};

struct layout {
    int rank, by_step, aligned, chunked, filled, latest, collective;
};

/* The figures of one layout. */
struct outcome {
    double write_s, read_s;
    uint64_t size_bytes, compared, wrong;
};

static struct layout layout_of(uint64_t i) {
    return (struct layout){.collective = (int)(i & 1),
                           .latest = (int)(i >> 1 & 1),
                           .filled = (int)(i >> 2 & 1),
                           .chunked = (int)(i >> 3 & 1),
                           .aligned = (int)(i >> 4 & 1),
                           .by_step = (int)(i >> 5 & 1),
                           .rank = 2 + (int)(i >> 6)};
}

static hid_t access_list(const struct shape *shape, const struct layout *layout) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    const H5F_libver_t oldest = layout->latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST;
    if (access < 0 || H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) < 0 ||
        H5Pset_libver_bounds(access, oldest, H5F_LIBVER_LATEST) < 0 ||
        H5Pset_alignment(access, 0, layout->aligned ? shape->alignment : 1) < 0 ||
        H5Pset_meta_block_size(access, shape->metadata_block) < 0)
        fail("access list", "failed");
    return access;
}

/* The block of a tile in the dataset that holds it, and the name of the dataset. */
static struct block tile(const struct shape *shape, const struct layout *layout, int rank, uint64_t step,
                         uint64_t array, char *name, size_t name_bytes) {
    const uint64_t slow = layout->by_step ? step : array, fast = layout->by_step ? array : step;
    const hsize_t slow_count = layout->by_step ? shape->steps : shape->arrays;
    const hsize_t fast_count = layout->by_step ? shape->arrays : shape->steps;
    const char *kind = layout->by_step ? "step" : "array";
    struct block block = {.dimensions = layout->rank};
    const int last = layout->rank - 1;
    block.extent[last] = block.size[last] = shape->columns;
    block.extent[last - 1] = shape->rows * (hsize_t)shape->ranks.count;
    block.at[last - 1] = shape->rows * (hsize_t)rank;
    block.size[last - 1] = shape->rows;
    for (int d = 0; d < last - 1; ++d) block.size[d] = 1;
    if (layout->rank == 2) snprintf(name, name_bytes, "%s_%u/part_%u", kind, (unsigned)slow, (unsigned)fast);
    if (layout->rank == 3) snprintf(name, name_bytes, "%s_%u", kind, (unsigned)slow);
    if (layout->rank == 4) snprintf(name, name_bytes, "arrays");
    if (layout->rank > 2) block.extent[layout->rank - 3] = fast_count, block.at[layout->rank - 3] = fast;
    if (layout->rank > 3) block.extent[0] = slow_count, block.at[0] = slow;
    return block;
}

static hid_t creation_list(const struct shape *shape, const struct layout *layout) {
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const uint64_t fill = 0xF0F1F2F3F4F5F6F7u;
    hsize_t chunk[kMostDimensions] = {1, 1, 1, 1};
    chunk[layout->rank - 2] = shape->rows, chunk[layout->rank - 1] = shape->columns;
    if (creation < 0 || (layout->chunked && H5Pset_chunk(creation, layout->rank, chunk) < 0) ||
        H5Pset_fill_value(creation, H5T_NATIVE_UINT64, &fill) < 0 ||
        H5Pset_fill_time(creation, layout->filled ? H5D_FILL_TIME_ALLOC : H5D_FILL_TIME_NEVER) < 0)
        fail("creation list", "failed");
    return creation;
}

static void fill_tile(uint64_t *words, const struct shape *shape, int rank, uint64_t step, uint64_t array) {
    const uint64_t number = (step * shape->arrays + array) * (uint64_t)shape->ranks.count + (uint64_t)rank;
    for (uint64_t i = 0; i < shape->rows * shape->columns; ++i) words[i] = word_at(number, i);
}

/* Opens the dataset of a tile, and creates it if this tile is its first. */
static hid_t dataset_of(hid_t file, const char *name, const struct shape *shape, const struct layout *layout,
                        const struct block *block, hid_t links, struct measured *measured) {
    int first = 1;
    for (int d = 0; d < layout->rank - 2; ++d) first = first && block->at[d] == 0;
    if (!first) {
        hid_t dataset;
        TIMED(measured->calls_s, dataset, H5Dopen2(file, name, H5P_DEFAULT));
        return dataset;
    }
    hid_t creation = creation_list(shape, layout), space = new_space(layout->rank, block->extent), dataset;
    TIMED(measured->calls_s, dataset, H5Dcreate2(file, name, H5T_NATIVE_UINT64, space, links, creation, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(creation);
    return dataset;
}

static void write_layout(const char *path, const struct shape *shape, const struct layout *layout, uint64_t *words,
                         struct measured *measured) {
    char name[64];
    hid_t access = access_list(shape, layout), links = H5Pcreate(H5P_LINK_CREATE), file;
    hid_t transfer = new_transfer(layout->collective);
    if (H5Pset_create_intermediate_group(links, 1) < 0) fail("link list", "failed");
    TIMED(measured->calls_s, file, H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, access));
    for (uint64_t step = 0; step < shape->steps; ++step)
        for (uint64_t array = 0; array < shape->arrays; ++array) {
            const struct block block = tile(shape, layout, shape->ranks.mine, step, array, name, sizeof name);
            fill_tile(words, shape, shape->ranks.mine, step, array);
            hid_t dataset = dataset_of(file, name, shape, layout, &block, links, measured);
            write_block(dataset, H5T_NATIVE_UINT64, &block, transfer, words, measured);
            close_dataset(dataset, measured);
        }
    close_one_of_several(file, measured);
    H5Pclose(transfer);
    H5Pclose(links);
    H5Pclose(access);
}

/* Reads all tiles of the next rank. */
static void read_layout(const char *path, const struct shape *shape, const struct layout *layout, uint64_t *words,
                        int serial) {
    char name[64];
    double unused_s = 0;
    const int rank = verified_rank(shape->ranks);
    hid_t file = open_to_read(path, serial), transfer = read_transfer(serial, layout->collective);
    for (uint64_t step = 0; step < shape->steps; ++step)
        for (uint64_t array = 0; array < shape->arrays; ++array) {
            const struct block block = tile(shape, layout, rank, step, array, name, sizeof name);
            fill_tile(words, shape, rank, step, array);
            compare_dataset(file, name, H5T_NATIVE_UINT64, &block, transfer, words, &unused_s);
        }
    H5Pclose(transfer);
    H5Fclose(file);
}

/* Measures one layout on all ranks together. */
static struct outcome measure(const char *path, const struct shape *shape, uint64_t i, uint64_t *words,
                              struct measured *measured) {
    const struct layout layout = layout_of(i);
    const struct compared before = compared_here;
    struct stat status;
    MPI_Barrier(MPI_COMM_WORLD);
    double times[2] = {now_s()}, begin_s = times[0];
    write_layout(path, shape, &layout, words, measured);
    times[0] = now_s() - begin_s;
    MPI_Barrier(MPI_COMM_WORLD);
    begin_s = now_s();
    read_layout(path, shape, &layout, words, 0);
    times[1] = now_s() - begin_s;
    double longest[2];
    uint64_t counts[] = {compared_here.bytes - before.bytes, compared_here.wrong - before.wrong}, sums[2];
    MPI_Allreduce(times, longest, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(counts, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (stat(path, &status) != 0) fail(path, "has no size");
    return (struct outcome){longest[0], longest[1], (uint64_t)status.st_size, sums[0], sums[1]};
}

static void print_outcomes(const struct outcome *outcomes, const struct shape *shape) {
    printf("{\"layouts\": [");
    for (uint64_t i = 0; i < shape->count; ++i) {
        const struct outcome *one = &outcomes[i];
        printf("%s{\"write_s\": %.6f, \"read_s\": %.6f, \"size\": %llu, \"compared\": %llu, \"wrong\": %llu}",
               i > 0 ? ", " : "", one->write_s, one->read_s, (unsigned long long)one->size_bytes,
               (unsigned long long)one->compared, (unsigned long long)one->wrong);
    }
}

static int run_all(const char *prefix, const struct shape *shape, int serial) {
    struct outcome *outcomes = new_array(shape->count * sizeof *outcomes);
    uint64_t *words = new_array(shape->rows * shape->columns * sizeof *words);
    struct measured measured = start_clocks();
    for (uint64_t n = 0; n < shape->count; ++n) {
        char path[4096];
        const struct layout layout = layout_of(shape->first + n);
        snprintf(path, sizeof path, "%s.%03u", prefix, (unsigned)(shape->first + n));
        if (serial) read_layout(path, shape, &layout, words, 1);
        else outcomes[n] = measure(path, shape, shape->first + n, words, &measured);
    }
    stop_clocks(&measured);
    const struct compared all = all_compared();
    const uint64_t mine = measured.bytes;
    uint64_t bytes;
    MPI_Reduce(&mine, &bytes, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (shape->ranks.mine == 0) {
        if (serial) printf("{\"layouts\": [");
        else print_outcomes(outcomes, shape);
        printf("], \"bytes\": %llu, \"total_s\": %.6f, \"compared\": %llu, \"wrong\": %llu}\n",
               (unsigned long long)bytes, measured.total_s, (unsigned long long)all.bytes,
               (unsigned long long)all.wrong);
    }
    free(words);
    free(outcomes);
    return all.wrong > 0 ? kExitWrongData : 0;
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const struct shape shape = {.ranks = ranks,
                                .steps = count_argument(argc, argv, "--steps", "2"),
                                .arrays = count_argument(argc, argv, "--arrays", "2"),
                                .rows = count_argument(argc, argv, "--rows", "8"),
                                .columns = count_argument(argc, argv, "--columns", "8"),
                                .alignment = count_argument(argc, argv, "--alignment", "65536"),
                                .metadata_block = count_argument(argc, argv, "--metadata-block", "2048"),
                                .first = count_argument(argc, argv, "--first", "0"),
                                .count = count_argument(argc, argv, "--count", "192")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.first + shape.count > kLayouts || shape.count == 0) fail("--first, --count", "are 192 at most");
    if (shape.steps * shape.arrays * shape.rows * shape.columns == 0) fail("sizes", "nothing to write");
    return end_ranks(run_all(path, &shape, flag(argc, argv, "--verify")));
}
