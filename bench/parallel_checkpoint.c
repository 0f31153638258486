/* checkpoint.c with several ranks: one file, one group per step, datasets that all ranks share. The ranks create, write
 * (each its part) and close one dataset after the other, and compute after every step.
 *
 *   parallel_checkpoint --file F [--datasets 8] [--mib 64] [--steps 4] [--compute-seconds 0] [--compute-first]
 *                       [--collective]
 *   parallel_checkpoint --file F --verify [the same sizes]
 *
 * `mib` is the size of one rank's part of a dataset. Prints, in addition to the common figures, the first and the
 * median later step's seconds, the time spent computing and the sweeps done. */
#include "checkpoint_data.h"
#include "parallel.h"

struct shape {
    struct ranks ranks;
    uint64_t datasets, words, steps;
    double compute_s;
    int compute_first, collective;
};

/* Returns the number of the array that a rank writes into a dataset. */
static uint64_t array_of(const struct shape *shape, int rank, uint64_t dataset) {
    return (uint64_t)rank * shape->datasets + dataset;
}

static void select_part(hid_t space, const struct shape *shape, int rank) {
    const hsize_t at = (hsize_t)rank * shape->words, size = shape->words;
    select_block(space, &at, &size);
}

static void write_step(hid_t file, hid_t space, hid_t memory, hid_t transfer, const struct shape *shape,
                       uint64_t **buffers, uint64_t step, struct measured *measured) {
    char name[32];
    hid_t group;
    herr_t done;
    snprintf(name, sizeof name, "step%03u", (unsigned)step);
    TIMED(measured->calls_s, group, H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (uint64_t d = 0; d < shape->datasets; ++d) {
        snprintf(name, sizeof name, "variable%02u", (unsigned)d);
        hid_t dataset = create_dataset(group, name, H5T_NATIVE_UINT64, space, H5P_DEFAULT, measured);
        write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, buffers[d], measured);
        close_dataset(dataset, measured);
    }
    TIMED(measured->calls_s, done, H5Gclose(group));
}

static double compute_timed(double seconds, uint64_t *sweeps) {
    double begin_s = now_s();
    *sweeps += compute(seconds);
    return now_s() - begin_s;
}

static int in_order(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the steps after the first; sorts them. */
static double later_step_s(double *step_s, uint64_t steps) {
    if (steps < 2) return 0;
    qsort(step_s + 1, steps - 1, sizeof *step_s, in_order);
    return step_s[1 + (steps - 1) / 2];
}

static int write_file(const char *path, const struct shape *shape) {
    const hsize_t mine = shape->words, all = shape->words * (hsize_t)shape->ranks.count;
    const uint64_t first_array = array_of(shape, shape->ranks.mine, 0);
    uint64_t **buffers = new_buffers(first_array, shape->datasets, shape->words), sweeps = 0;
    double compute_s = 0, step_s[kMostSteps];
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured);
    hid_t space = new_space(1, &all), memory = new_space(1, &mine), transfer = new_transfer(shape->collective);
    select_part(space, shape, shape->ranks.mine);
    if (shape->compute_first) compute_s += compute_timed(shape->compute_s, &sweeps);
    for (uint64_t step = 0; step < shape->steps; ++step) {
        for (uint64_t d = 0; d < shape->datasets; ++d) stamp(buffers[d], shape->words, first_array + d, step);
        MPI_Barrier(MPI_COMM_WORLD); /* no rank waits for the others' computing inside HDF5 */
        double before_s = measured.calls_s;
        write_step(file, space, memory, transfer, shape, buffers, step, &measured);
        step_s[step] = measured.calls_s - before_s;
        compute_s += compute_timed(shape->compute_s, &sweeps);
    }
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(transfer);
    close_shared(file, &measured);
    const struct figure more[] = {{"first_step_s", step_s[0]},
                                  {"later_step_s", later_step_s(step_s, shape->steps)},
                                  {"compute_s", compute_s},
                                  {"sweeps", (double)sweeps}};
    print_measured(shape->ranks, &measured, more, 4);
    delete_buffers(buffers, shape->datasets);
    return 0;
}

static int verify_file(const char *path, const struct shape *shape) {
    const int rank = verified_rank(shape->ranks);
    const hsize_t size = shape->words;
    int wrong = 0;
    uint64_t **expected = new_buffers(array_of(shape, rank, 0), shape->datasets, shape->words);
    uint64_t *found = new_array(size * sizeof *found);
    hid_t file = open_to_verify(path), memory = new_space(1, &size);
    for (uint64_t step = 0; step < shape->steps; ++step) {
        for (uint64_t d = 0; d < shape->datasets; ++d) {
            char name[64];
            snprintf(name, sizeof name, "step%03u/variable%02u", (unsigned)step, (unsigned)d);
            stamp(expected[d], shape->words, array_of(shape, rank, d), step);
            hid_t dataset = open_dataset(file, name), space = H5Dget_space(dataset);
            select_part(space, shape, rank);
            read_selected(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, found);
            wrong |= differs(name, found, expected[d], size * sizeof *found);
            H5Sclose(space);
            H5Dclose(dataset);
        }
    }
    H5Sclose(memory);
    H5Fclose(file);
    free(found);
    delete_buffers(expected, shape->datasets);
    return say_verified(shape->ranks, wrong);
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const struct shape shape = {.ranks = ranks,
                                .datasets = count_argument(argc, argv, "--datasets", "8"),
                                .words = count_argument(argc, argv, "--mib", "64") * (1u << 20) / sizeof(uint64_t),
                                .steps = count_argument(argc, argv, "--steps", "4"),
                                .compute_s = seconds_argument(argc, argv, "--compute-seconds", "0"),
                                .compute_first = flag(argc, argv, "--compute-first"),
                                .collective = flag(argc, argv, "--collective")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.steps == 0 || shape.steps > kMostSteps) fail("--steps", "are too few or too many");
    if (shape.datasets == 0 || shape.words == 0) fail("--datasets, --mib", "nothing to write");
    return end_ranks(flag(argc, argv, "--verify") ? verify_file(path, &shape) : write_file(path, &shape));
}
