/* Writes checkpoints: plain HDF5, one file, one group per step. It creates, writes and closes one dataset after the
 * other, and computes after every step.
 *
 *   checkpoint --file F [--datasets 8] [--mib 64] [--steps 4] [--compute-seconds 0] [--compute-first]
 *   checkpoint --file F --verify [the same sizes]
 *
 * Prints the time spent inside HDF5 calls (it times each call), in H5Fclose, and in all. The start of the library
 * (H5open) is a separate figure. Computing is a five-point stencil on one core until the seconds are over. The number
 * of sweeps shows the slowdown by other work. */
#include <hdf5.h>

#include "checkpoint_data.h"

struct shape {
    uint64_t datasets, words, steps;
};

struct times {
    double start_s, calls_s, close_s, total_s, compute_s;
    double step_s[kMostSteps];
    uint64_t sweeps;
};

static void write_step(hid_t file, const struct shape *shape, uint64_t **buffers, uint64_t step, struct times *times) {
    char name[32];
    hid_t group, space, dataset;
    herr_t done;
    hsize_t extent = shape->words;
    double before_s = times->calls_s;
    snprintf(name, sizeof name, "step%03u", (unsigned)step);
    TIMED(times->calls_s, group, H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    TIMED(times->calls_s, space, H5Screate_simple(1, &extent, NULL));
    for (uint64_t d = 0; d < shape->datasets; ++d) {
        snprintf(name, sizeof name, "variable%02u", (unsigned)d);
        TIMED(times->calls_s, dataset,
              H5Dcreate2(group, name, H5T_NATIVE_UINT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        TIMED(times->calls_s, done, H5Dwrite(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffers[d]));
        TIMED(times->calls_s, done, H5Dclose(dataset));
    }
    TIMED(times->calls_s, done, H5Sclose(space));
    TIMED(times->calls_s, done, H5Gclose(group));
    times->step_s[step] = times->calls_s - before_s;
}

static struct times write_file(const char *path, const struct shape *shape, double compute_s, int compute_first) {
    struct times times = {0};
    uint64_t **buffers = new_buffers(0, shape->datasets, shape->words);
    hid_t file;
    herr_t done;
    TIMED(times.start_s, done, H5open());
    double begin_s = now_s();
    TIMED(times.calls_s, file, H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    if (compute_first) {
        double at_s = now_s();
        times.sweeps += compute(compute_s);
        times.compute_s += now_s() - at_s;
    }
    for (uint64_t step = 0; step < shape->steps; ++step) {
        for (uint64_t d = 0; d < shape->datasets; ++d) stamp(buffers[d], shape->words, d, step);
        write_step(file, shape, buffers, step, &times);
        double at_s = now_s();
        times.sweeps += compute(compute_s);
        times.compute_s += now_s() - at_s;
    }
    TIMED(times.close_s, done, H5Fclose(file));
    times.total_s = now_s() - begin_s;
    delete_buffers(buffers, shape->datasets);
    return times;
}

static void verify_dataset(hid_t group, const char *name, const struct shape *shape, uint64_t d, uint64_t step,
                           uint64_t *words) {
    hid_t dataset = H5Dopen2(group, name, H5P_DEFAULT);
    if (dataset < 0) fail(name, "cannot be opened");
    if (H5Dread(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, words) < 0) fail(name, "cannot be read");
    for (uint64_t i = 0; i < shape->words; ++i) {
        if (words[i] == checkpoint_word(d, i, step)) continue;
        fprintf(stderr, "step %u, %s, word %llu: wrong data\n", (unsigned)step, name, (unsigned long long)i);
        exit(kExitWrongData);
    }
    H5Dclose(dataset);
}

static void verify_file(const char *path, const struct shape *shape) {
    uint64_t *words = malloc(shape->words * sizeof *words);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (words == NULL || file < 0) fail(path, "cannot be opened");
    for (uint64_t step = 0; step < shape->steps; ++step) {
        char name[32];
        snprintf(name, sizeof name, "step%03u", (unsigned)step);
        hid_t group = H5Gopen2(file, name, H5P_DEFAULT);
        if (group < 0) fail(name, "cannot be opened");
        for (uint64_t d = 0; d < shape->datasets; ++d) {
            snprintf(name, sizeof name, "variable%02u", (unsigned)d);
            verify_dataset(group, name, shape, d, step, words);
        }
        H5Gclose(group);
    }
    H5Fclose(file);
    free(words);
    printf("{\"verified\": true}\n");
}

int main(int argc, char **argv) {
    const char *path = argument(argc, argv, "--file", NULL);
    struct shape shape = {.datasets = count_argument(argc, argv, "--datasets", "8"),
                          .words = count_argument(argc, argv, "--mib", "64") * (1u << 20) / sizeof(uint64_t),
                          .steps = count_argument(argc, argv, "--steps", "4")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.steps > kMostSteps) fail("--steps", "are too many");
    if (flag(argc, argv, "--verify")) {
        verify_file(path, &shape);
        return 0;
    }
    struct times times = write_file(path, &shape, seconds_argument(argc, argv, "--compute-seconds", "0"),
                                    flag(argc, argv, "--compute-first"));
    printf("{\"bytes\": %llu, \"start_s\": %.6f, \"calls_s\": %.6f, \"close_s\": %.6f, \"total_s\": %.6f, "
           "\"compute_s\": %.6f, \"sweeps\": %llu, \"step_s\": [",
           (unsigned long long)(shape.datasets * shape.words * sizeof(uint64_t) * shape.steps), times.start_s,
           times.calls_s, times.close_s, times.total_s, times.compute_s, (unsigned long long)times.sweeps);
    for (uint64_t step = 0; step < shape.steps; ++step) printf("%s%.6f", step == 0 ? "" : ", ", times.step_s[step]);
    printf("]}\n");
    return 0;
}
