/* Every way in which the space of a dataset comes into being, with ranks that write into it at once.
 *
 *   mpiexec -n RANKS parallel_allocation write FOLDER EVERY FIRST
 *       writes one file per combination, and reads it back in between
 *   mpiexec -n RANKS parallel_allocation check FOLDER EVERY FIRST
 *       checks all elements of all files with HDF5's default driver
 *
 * One combination in EVERY is taken, beginning with number FIRST.
 * Combined are fill time, allocation time, contiguous or chunked or extended step by step, alignment, metadata block
 * size, oldest and newest file format, and 2 to 4 dimensions. A file is closed and opened again for every step; in
 * between every rank reads its neighbour's part after a barrier without a flush. What fill time and allocation time
 * decide is who fills a region that others write to, and when. Where nothing is filled, everything is written;
 * elsewhere the last column stays as it was filled. Prints the number of combinations; ends with 1 if a call failed, 3
 * if data was wrong. */
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kExitFailure = 1, kExitUsage = 2, kExitWrongData = 3 };
enum { kSteps = 3, kRowsPerStep = 4, kColumnsPerRank = 5, kMostDims = 4, kDeep = 9 };
static const uint64_t kFill = 0xF111F111F111F111u;

enum layout { kContiguous, kChunked, kExtended };
struct combination {
    H5D_fill_time_t fill;
    H5D_alloc_time_t allocation;
    enum layout layout;
    hsize_t alignment, metadata_block;
    H5F_libver_t oldest;
    int dims;
};

static int rank, ranks;

static void fail(const struct combination *c, const char *what) {
    fprintf(stderr,
            "rank %d: %s failed (fill %d, allocation %d, layout %d, alignment %d, block %d, format %d, %d dims)\n",
            rank, what, (int)c->fill, (int)c->allocation, (int)c->layout, (int)c->alignment, (int)c->metadata_block,
            (int)c->oldest, c->dims);
    MPI_Abort(MPI_COMM_WORLD, kExitFailure);
}
#define OK(c, call) ok((c), #call, (int64_t)(call))
static int64_t ok(const struct combination *c, const char *what, int64_t result) {
    if (result < 0) fail(c, what);
    return result;
}

static uint64_t word_at(uint64_t index, uint64_t version) {
    uint64_t x = (version << 48) + index + 0x9E3779B97F4A7C15u; /* the mixing step of SplitMix64 */
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static hsize_t product(const hsize_t *extents, int dims) {
    hsize_t result = 1;
    for (int d = 0; d < dims; ++d) result *= extents[d];
    return result;
}

/* The extents of a dataset with so many rows: rows, columns of all ranks, then depth. */
static void extents_of(const struct combination *c, hsize_t rows, hsize_t *extents) {
    for (int d = 0; d < c->dims; ++d)
        extents[d] = d == 0 ? rows : d == 1 ? (hsize_t)(ranks * kColumnsPerRank) : d == 2 ? kDeep : 2;
}

static int writes_everything(const struct combination *c) { return c->fill == H5D_FILL_TIME_NEVER; }

/* A rank's part of some rows: its columns, but for the last one where fill values are to show. */
static void part_of(const struct combination *c, int of_rank, hsize_t first_row, hsize_t rows, hsize_t *start,
                    hsize_t *count) {
    extents_of(c, rows, count);
    memset(start, 0, (size_t)c->dims * sizeof *start);
    start[0] = first_row;
    start[1] = (hsize_t)(of_rank * kColumnsPerRank);
    count[1] = writes_everything(c) ? kColumnsPerRank : kColumnsPerRank - 1;
}

/* The value at a place of the dataset: of the place itself, or the fill value in a column that nobody writes. */
static uint64_t expected(const struct combination *c, const hsize_t *at, uint64_t version) {
    if (!writes_everything(c) && at[1] % kColumnsPerRank == kColumnsPerRank - 1) return kFill;
    uint64_t index = at[0];
    for (int d = 1; d < c->dims; ++d) index = index * 1000 + at[d];
    return word_at(index, version);
}

/* Fills, or compares, the words of a box; the number that differ. */
static uint64_t walk(const struct combination *c, const hsize_t *start, const hsize_t *count, uint64_t version,
                     uint64_t *words, int compare) {
    const hsize_t total = product(count, c->dims);
    uint64_t wrong = 0;
    for (hsize_t i = 0; i < total; ++i) {
        hsize_t at[kMostDims], rest = i;
        for (int d = c->dims; d-- > 0; rest /= count[d]) at[d] = start[d] + rest % count[d];
        if (compare) wrong += words[i] != expected(c, at, version);
        else words[i] = expected(c, at, version);
    }
    return wrong;
}

static void move(const struct combination *c, hid_t dataset, const hsize_t *start, const hsize_t *count,
                 uint64_t *words, int writing, int collective) {
    const hsize_t total = product(count, c->dims);
    const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &total, NULL),
                list = H5Pcreate(H5P_DATASET_XFER);
    if (collective) OK(c, H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE));
    OK(c, H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    if (writing) OK(c, H5Dwrite(dataset, H5T_NATIVE_UINT64, memory, space, list, words));
    else OK(c, H5Dread(dataset, H5T_NATIVE_UINT64, memory, space, list, words));
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
}

static void name_of(const struct combination *c, const char *folder, char *path, size_t bytes) {
    snprintf(path, bytes, "%s/fill%d-alloc%d-layout%d-align%d-block%d-format%d-dims%d.h5", folder, (int)c->fill,
             (int)c->allocation, (int)c->layout, (int)c->alignment, (int)c->metadata_block, (int)c->oldest, c->dims);
}

static hid_t access_list(const struct combination *c) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    OK(c, H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
    OK(c, H5Pset_libver_bounds(list, c->oldest, H5F_LIBVER_LATEST));
    OK(c, H5Pset_alignment(list, 1, c->alignment));
    OK(c, H5Pset_meta_block_size(list, c->metadata_block));
    return list;
}

static hid_t create_dataset(const struct combination *c, hid_t file, const char *name) {
    hsize_t extents[kMostDims], limits[kMostDims], chunk[kMostDims];
    extents_of(c, kRowsPerStep, extents);
    memcpy(limits, extents, sizeof limits);
    limits[0] = c->layout == kExtended ? H5S_UNLIMITED : extents[0];
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(c->dims, extents, limits);
    /* Chunks cross the borders between ranks and between steps. */
    for (int d = 0; d < c->dims; ++d) chunk[d] = d < 2 ? 3 : extents[d];
    if (c->layout != kContiguous) OK(c, H5Pset_chunk(creation, c->dims, chunk));
    OK(c, H5Pset_fill_time(creation, c->fill));
    OK(c, H5Pset_alloc_time(creation, c->allocation));
    OK(c, H5Pset_fill_value(creation, H5T_NATIVE_UINT64, &kFill));
    const hid_t dataset = OK(c, H5Dcreate2(file, name, H5T_STD_U64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(creation);
    return dataset;
}

/* One step: the file is opened, a dataset is made or grows, all ranks write, and look at their neighbour's part. */
static uint64_t write_step(const struct combination *c, const char *path, uint64_t step, uint64_t *words) {
    hsize_t start[kMostDims], count[kMostDims], extents[kMostDims];
    char name[16];
    const int grows = c->layout == kExtended;
    const hid_t access = access_list(c);
    const hid_t file = step == 0 ? OK(c, H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access))
                                 : OK(c, H5Fopen(path, H5F_ACC_RDWR, access));
    snprintf(name, sizeof name, "step%u", grows ? 0 : (unsigned)step);
    hid_t dataset;
    if (grows && step > 0) {
        dataset = OK(c, H5Dopen2(file, name, H5P_DEFAULT));
        extents_of(c, (step + 1) * kRowsPerStep, extents);
        OK(c, H5Dset_extent(dataset, extents));
    } else {
        dataset = create_dataset(c, file, name);
    }
    const hsize_t first_row = grows ? step * kRowsPerStep : 0;
    const uint64_t version = grows ? 1 : step + 1;
    part_of(c, rank, first_row, kRowsPerStep, start, count);
    (void)walk(c, start, count, version, words, 0);
    move(c, dataset, start, count, words, 1, step % 2 == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    part_of(c, (rank + 1) % ranks, first_row, kRowsPerStep, start, count);
    count[1] = kColumnsPerRank; /* with the column that is filled */
    move(c, dataset, start, count, words, 0, step % 2 == 1);
    const uint64_t wrong = walk(c, start, count, version, words, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(c, H5Dclose(dataset));
    OK(c, H5Fclose(file));
    H5Pclose(access);
    return wrong;
}

static uint64_t check_dataset(const struct combination *c, hid_t file, const char *name, uint64_t version) {
    hsize_t start[kMostDims] = {0}, count[kMostDims];
    const hid_t dataset = OK(c, H5Dopen2(file, name, H5P_DEFAULT)), space = H5Dget_space(dataset);
    OK(c, H5Sget_simple_extent_dims(space, count, NULL));
    H5Sclose(space);
    uint64_t *words = calloc(product(count, c->dims), sizeof *words);
    if (words == NULL) fail(c, "calloc");
    move(c, dataset, start, count, words, 0, 0);
    const uint64_t wrong = walk(c, start, count, version, words, 1);
    free(words);
    OK(c, H5Dclose(dataset));
    return wrong;
}

static uint64_t check_file(const struct combination *c, const char *path) {
    const hid_t file = OK(c, H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    uint64_t wrong = 0;
    for (unsigned step = 0; step < (c->layout == kExtended ? 1 : kSteps); ++step) {
        char name[16];
        snprintf(name, sizeof name, "step%u", step);
        wrong += check_dataset(c, file, name, step + 1);
    }
    OK(c, H5Fclose(file));
    return wrong;
}

static uint64_t run(const struct combination *c, const char *folder, int writing, uint64_t number, uint64_t *words) {
    char path[4096];
    uint64_t wrong = 0;
    name_of(c, folder, path, sizeof path);
    if (!writing) return number % (uint64_t)ranks == (uint64_t)rank ? check_file(c, path) : 0;
    for (uint64_t step = 0; step < kSteps; ++step) wrong += write_step(c, path, step, words);
    return wrong;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5 || (strcmp(argv[1], "write") != 0 && strcmp(argv[1], "check") != 0)) {
        fprintf(stderr, "usage: parallel_allocation write|check FOLDER EVERY FIRST\n");
        MPI_Abort(MPI_COMM_WORLD, kExitUsage);
    }
    const uint64_t every = strtoull(argv[3], NULL, 10), first = strtoull(argv[4], NULL, 10);
    static const H5D_fill_time_t kFills[] = {H5D_FILL_TIME_NEVER, H5D_FILL_TIME_ALLOC, H5D_FILL_TIME_IFSET};
    static const H5D_alloc_time_t kAllocations[] = {H5D_ALLOC_TIME_EARLY, H5D_ALLOC_TIME_LATE, H5D_ALLOC_TIME_INCR};
    static const enum layout kLayouts[] = {kContiguous, kChunked, kExtended};
    static const hsize_t kAlignments[] = {1, 4096}, kBlocks[] = {2048, 65536};
    static const H5F_libver_t kFormats[] = {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST};
    uint64_t *words = calloc((size_t)kRowsPerStep * kColumnsPerRank * kDeep * 2, sizeof *words);
    uint64_t number = 0, done = 0, wrong = 0;
    for (size_t f = 0; f < 3; ++f)
        for (size_t a = 0; a < 3; ++a)
            for (size_t l = 0; l < 3; ++l)
                for (size_t i = 0; i < 8; ++i)
                    for (int dims = 2; dims <= kMostDims; ++dims, ++number) {
                        if (number % every != first) continue;
                        const struct combination c = {
                            kFills[f],           kAllocations[a],  kLayouts[l], kAlignments[i & 1],
                            kBlocks[i >> 1 & 1], kFormats[i >> 2], dims};
                        const uint64_t here = words == NULL
                                                  ? 1
                                                  : run(&c, argv[2], strcmp(argv[1], "write") == 0, done++, words);
                        char path[256];
                        name_of(&c, "", path, sizeof path);
                        if (here > 0)
                            fprintf(stderr, "rank %d: %s: %llu wrong words\n", rank, path, (unsigned long long)here);
                        wrong += here;
                    }
    free(words);
    if (rank == 0) printf("%llu combinations\n", (unsigned long long)done);
    MPI_Finalize();
    return wrong == 0 ? 0 : kExitWrongData;
}
