/* QMCPACK's restart file (HDF5 VOL Status Report, section 5, figure 19): random seeds and walkers of a Monte Carlo
 * simulation, contiguous datasets, written collectively in units far smaller than a dataset.
 *
 *   qmcpack_restart --file F [--walkers 8] [--electrons 128] [--seeds 1024] [--unit cell|walker|all] [--independent]
 *   qmcpack_restart --file F --verify [the same]
 *
 * `walkers` and `seeds` are those of one rank; a walker has three coordinates of each electron. One write has one
 * number (cell), one walker, or all that the rank has. Before the close each rank reads its walkers back, unit by unit,
 * and after it the walkers of the next rank.
 */
#include "kernel.h"

enum { kCoordinates = 3, kBlockNumber = 12 };

enum unit { kCell, kWalker, kAll };

struct shape {
    struct ranks ranks;
    uint64_t walkers, electrons, seeds;
    enum unit unit;
    int collective;
};

static const int32_t kVersion[2] = {3, 0};

/* The walkers of a rank. */
static struct block walkers_of(const struct shape *shape, int rank) {
    return (struct block){3,
                          {shape->walkers * (hsize_t)shape->ranks.count, shape->electrons, kCoordinates},
                          {shape->walkers * (hsize_t)rank, 0, 0},
                          {shape->walkers, shape->electrons, kCoordinates}};
}

static struct block seeds_of(const struct shape *shape, int rank) {
    return row_block(shape->seeds * (hsize_t)shape->ranks.count, shape->seeds * (hsize_t)rank, shape->seeds);
}

/* Makes the positions of a rank's walkers, between 0 and 1. */
static double *new_walkers(const struct shape *shape, int rank) {
    const struct block block = walkers_of(shape, rank);
    double *values = new_array(values_of(&block) * sizeof *values);
    for (uint64_t i = 0; i < values_of(&block); ++i) values[i] = (double)(word_at((uint64_t)rank, i) >> 11) * 0x1p-53;
    return values;
}

static uint32_t *new_seeds(const struct shape *shape, int rank) {
    uint32_t *values = new_array(shape->seeds * sizeof *values);
    for (uint64_t i = 0; i < shape->seeds; ++i) values[i] = (uint32_t)word_at(1000 + (uint64_t)rank, i);
    return values;
}

/* Makes the first walker of each rank, and the end of the last rank's. */
static int32_t *new_partition(const struct shape *shape) {
    int32_t *values = new_array(((size_t)shape->ranks.count + 1) * sizeof *values);
    for (int r = 0; r <= shape->ranks.count; ++r) values[r] = (int32_t)shape->walkers * r;
    return values;
}

/* The i-th part of a rank's walkers that one call writes, and the index of its first number. */
static struct block unit_of(const struct shape *shape, int rank, uint64_t i, uint64_t *first) {
    struct block block = walkers_of(shape, rank);
    const uint64_t of_walker = shape->electrons * kCoordinates;
    *first = 0;
    if (shape->unit == kAll) return block;
    *first = shape->unit == kCell ? i : i * of_walker;
    block.at[0] += *first / of_walker;
    block.size[0] = 1;
    if (shape->unit == kWalker) return block;
    block.at[1] = i % of_walker / kCoordinates;
    block.at[2] = i % kCoordinates;
    block.size[1] = block.size[2] = 1;
    return block;
}

static uint64_t units(const struct shape *shape) {
    return shape->unit == kAll      ? 1
           : shape->unit == kWalker ? shape->walkers
                                    : shape->walkers * shape->electrons * kCoordinates;
}

/* Rank 0 writes a small array that all ranks know. Collective. */
static void write_by_one(hid_t parent, const char *name, hid_t type, hsize_t count, const void *values,
                         const struct shape *shape, hid_t transfer, struct measured *measured) {
    const struct block block = row_block(count, 0, shape->ranks.mine == 0 ? count : 0);
    write_dataset(parent, name, type, &block, transfer, values, measured);
}

/* Writes the walkers, and reads them back from the open file. Returns the seconds of the reads. */
static double write_walkers(hid_t group, hid_t transfer, const struct shape *shape, struct measured *measured) {
    const int rank = shape->ranks.mine;
    const struct block all = walkers_of(shape, rank);
    double *values = new_walkers(shape, rank), read_s = 0;
    hid_t space = new_space(all.dimensions, all.extent);
    hid_t dataset = create_dataset(group, "walkers", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, measured);
    for (uint64_t i = 0; i < units(shape); ++i) {
        uint64_t first;
        const struct block block = unit_of(shape, rank, i, &first);
        write_block(dataset, H5T_NATIVE_DOUBLE, &block, transfer, values + first, measured);
    }
    for (uint64_t i = 0; i < units(shape); ++i) {
        uint64_t first;
        const struct block block = unit_of(shape, rank, i, &first);
        compare_block(dataset, "walkers before the close", H5T_NATIVE_DOUBLE, &block, transfer, values + first,
                      &read_s);
    }
    close_dataset(dataset, measured);
    H5Sclose(space);
    free(values);
    return read_s;
}

static double read_file(const char *path, const struct shape *shape, int serial) {
    const int rank = verified_rank(shape->ranks);
    const struct block walkers = walkers_of(shape, rank), seeds = seeds_of(shape, rank);
    const hsize_t bounds = (hsize_t)shape->ranks.count + 1;
    const struct block all = row_block(bounds, 0, bounds), two = row_block(2, 0, 2), one = row_block(1, 0, 1);
    const int32_t block_number = kBlockNumber, count = (int32_t)shape->walkers * shape->ranks.count;
    double read_s = 0, *positions = new_walkers(shape, rank);
    uint32_t *numbers = new_seeds(shape, rank);
    int32_t *partition = new_partition(shape);
    hid_t file = open_to_read(path, serial), transfer = read_transfer(serial, shape->collective);
    hid_t group = open_group(file, "state_0");
    compare_dataset(file, "version", H5T_NATIVE_INT32, &two, transfer, kVersion, &read_s);
    compare_dataset(group, "block", H5T_NATIVE_INT32, &one, transfer, &block_number, &read_s);
    compare_dataset(group, "number_of_walkers", H5T_NATIVE_INT32, &one, transfer, &count, &read_s);
    compare_dataset(group, "walker_partition", H5T_NATIVE_INT32, &all, transfer, partition, &read_s);
    compare_dataset(group, "random_seeds", H5T_NATIVE_UINT32, &seeds, transfer, numbers, &read_s);
    compare_dataset(group, "walkers", H5T_NATIVE_DOUBLE, &walkers, transfer, positions, &read_s);
    H5Gclose(group);
    H5Pclose(transfer);
    H5Fclose(file);
    free(partition);
    free(numbers);
    free(positions);
    return read_s;
}

static int write_file(const char *path, const struct shape *shape) {
    const struct block seeds = seeds_of(shape, shape->ranks.mine);
    const int32_t block_number = kBlockNumber, count = (int32_t)shape->walkers * shape->ranks.count;
    uint32_t *numbers = new_seeds(shape, shape->ranks.mine);
    int32_t *partition = new_partition(shape);
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured), transfer = new_transfer(shape->collective);
    hid_t group = create_group(file, "state_0", &measured);
    write_by_one(file, "version", H5T_NATIVE_INT32, 2, kVersion, shape, transfer, &measured);
    write_by_one(group, "block", H5T_NATIVE_INT32, 1, &block_number, shape, transfer, &measured);
    write_by_one(group, "number_of_walkers", H5T_NATIVE_INT32, 1, &count, shape, transfer, &measured);
    write_by_one(group, "walker_partition", H5T_NATIVE_INT32, (hsize_t)shape->ranks.count + 1, partition, shape,
                 transfer, &measured);
    write_dataset(group, "random_seeds", H5T_NATIVE_UINT32, &seeds, transfer, numbers, &measured);
    double read_s = write_walkers(group, transfer, shape, &measured);
    H5Gclose(group);
    H5Pclose(transfer);
    close_shared(file, &measured);
    free(partition);
    free(numbers);
    return report(shape->ranks, &measured, read_s + read_file(path, shape, 0));
}

static enum unit unit_argument(int argc, char **argv) {
    const char *name = argument(argc, argv, "--unit", "walker");
    if (strcmp(name, "cell") == 0) return kCell;
    if (strcmp(name, "walker") == 0) return kWalker;
    if (strcmp(name, "all") != 0) fail(name, "no such unit");
    return kAll;
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const struct shape shape = {.ranks = ranks,
                                .walkers = count_argument(argc, argv, "--walkers", "8"),
                                .electrons = count_argument(argc, argv, "--electrons", "128"),
                                .seeds = count_argument(argc, argv, "--seeds", "1024"),
                                .unit = unit_argument(argc, argv),
                                .collective = !flag(argc, argv, "--independent")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.walkers * shape.electrons * shape.seeds == 0) fail("sizes", "nothing to write");
    if (!flag(argc, argv, "--verify")) return end_ranks(write_file(path, &shape));
    read_file(path, &shape, 1);
    return end_ranks(say_verified(ranks, 0));
}
