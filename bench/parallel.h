/* Common parts of the measuring programs of several ranks: MPI's begin and end, a shared file, timed writes, figures.
 *
 * mpiexec starts a program, which knows nothing about forebay. The program writes one file that all ranks opened
 * together. With --verify, the same number of ranks and the same sizes, it reads the file back with HDF5's serial
 * driver: each rank reads its neighbour's part, and compares every byte. Rank 0 prints one JSON object. Exit codes are
 * those of program.h. A rank that fails ends without MPI_Finalize, so that mpiexec ends the others. */
#ifndef FOREBAY_BENCH_PARALLEL_H
#define FOREBAY_BENCH_PARALLEL_H

#include <hdf5.h>
#include <mpi.h>

#include "program.h"

struct ranks {
    int mine, count;
};

/* Times of one rank: in HDF5 calls (waiting for other ranks included), in H5Fclose, and from before H5Fcreate to after
 * H5Fclose. The start of the library is a separate figure. Bytes and requests are those of H5Dwrite. */
struct measured {
    uint64_t bytes, requests;
    double start_s, calls_s, close_s, total_s, cpu_s;
};

/* An additional number of a program. The program prints the maximum over all ranks. */
struct figure {
    const char *name;
    double value;
};

/* Bytes that a rank has compared, and how many of them were wrong. */
struct compared {
    uint64_t bytes, wrong;
};

UNUSED_OK static struct compared compared_here;

/* Returns the sums over all ranks. Collective. */
UNUSED_OK static struct compared all_compared(void) {
    const uint64_t mine[] = {compared_here.bytes, compared_here.wrong};
    uint64_t sums[2];
    MPI_Allreduce(mine, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return (struct compared){sums[0], sums[1]};
}

/* Counts the bytes, and those that differ. Prints the first of these, and returns true if there is one. */
UNUSED_OK static int differs(const char *what, const void *found, const void *expected, size_t size_bytes) {
    const unsigned char *a = found, *b = expected;
    compared_here.bytes += size_bytes;
    if (memcmp(a, b, size_bytes) == 0) return 0;
    size_t first = 0;
    while (a[first] == b[first]) ++first;
    for (size_t at = first; at < size_bytes; ++at) compared_here.wrong += a[at] != b[at];
    fprintf(stderr, "%s, byte %zu of the selection: wrong data\n", what, first);
    return 1;
}

UNUSED_OK static struct ranks begin_ranks(int *argc, char ***argv) {
    struct ranks ranks;
    if (MPI_Init(argc, argv) != MPI_SUCCESS) fail("MPI_Init", "failed");
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks.mine);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks.count);
    return ranks;
}

/* Ends MPI on all ranks. Returns the largest exit code on all. */
UNUSED_OK static int end_ranks(int code) {
    int largest = code;
    MPI_Allreduce(&code, &largest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return largest;
}

/* Processor time of the process, all its threads. */
UNUSED_OK static double cpu_now_s(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Starts the library, then the clocks of all ranks together. */
UNUSED_OK static struct measured start_clocks(void) {
    struct measured measured = {0};
    herr_t done;
    TIMED(measured.start_s, done, H5open());
    MPI_Barrier(MPI_COMM_WORLD);
    measured.total_s = -now_s();
    measured.cpu_s = -cpu_now_s();
    return measured;
}

UNUSED_OK static void stop_clocks(struct measured *measured) {
    measured->total_s += now_s();
    measured->cpu_s += cpu_now_s();
}

/* Creates a file that all ranks open. Collective. */
UNUSED_OK static hid_t create_shared(const char *path, struct measured *measured) {
    hid_t access, file;
    herr_t done;
    TIMED(measured->calls_s, access, H5Pcreate(H5P_FILE_ACCESS));
    TIMED(measured->calls_s, done, H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    TIMED(measured->calls_s, file, H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, access));
    TIMED(measured->calls_s, done, H5Pclose(access));
    return file;
}

/* Closes the file and stops the clocks. Collective. */
UNUSED_OK static void close_shared(hid_t file, struct measured *measured) {
    herr_t done;
    TIMED(measured->close_s, done, H5Fclose(file));
    stop_clocks(measured);
}

UNUSED_OK static hid_t new_transfer(int collective) {
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    if (transfer < 0 || H5Pset_dxpl_mpio(transfer, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT) < 0)
        fail("transfer list", "failed");
    return transfer;
}

/* Creates a dataset, in measured time. Collective. */
UNUSED_OK static hid_t create_dataset(hid_t parent, const char *name, hid_t type, hid_t space, hid_t creation,
                                      struct measured *measured) {
    hid_t dataset;
    TIMED(measured->calls_s, dataset, H5Dcreate2(parent, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    return dataset;
}

/* Selects the elements of `space` from `at` on, `size` in each dimension. */
UNUSED_OK static void select_block(hid_t space, const hsize_t *at, const hsize_t *size) {
    if (H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL) < 0) fail("selection", "failed");
}

UNUSED_OK static hid_t new_space(int dimensions, const hsize_t *extent) {
    hid_t space = H5Screate_simple(dimensions, extent, NULL);
    if (space < 0) fail("dataspace", "failed");
    return space;
}

/* Writes the selection of `space` from `data`, which has the layout `memory`. */
UNUSED_OK static void write_selected(hid_t dataset, hid_t type, hid_t memory, hid_t space, hid_t transfer,
                                     const void *data, struct measured *measured) {
    herr_t done;
    measured->bytes += (uint64_t)H5Sget_select_npoints(space) * H5Tget_size(type);
    measured->requests += 1;
    TIMED(measured->calls_s, done, H5Dwrite(dataset, type, memory, space, transfer, data));
}

UNUSED_OK static void close_dataset(hid_t dataset, struct measured *measured) {
    herr_t done;
    TIMED(measured->calls_s, done, H5Dclose(dataset));
}

/* Prints sums of bytes, requests, processor time and compared bytes, and the largest of each time. Collective. */
UNUSED_OK static void print_measured(struct ranks ranks, const struct measured *mine, const struct figure *more,
                                     int more_count) {
    const uint64_t counts[] = {mine->bytes, mine->requests};
    const double times[] = {mine->start_s, mine->calls_s, mine->close_s, mine->total_s};
    uint64_t count_sums[2];
    double time_max[4], cpu_sum_s, more_max;
    MPI_Reduce(counts, count_sums, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(times, time_max, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine->cpu_s, &cpu_sum_s, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    const struct compared compared = all_compared();
    if (ranks.mine == 0)
        printf("{\"ranks\": %d, \"bytes\": %llu, \"requests\": %llu, \"start_s\": %.6f, \"calls_s\": %.6f, "
               "\"close_s\": %.6f, \"total_s\": %.6f, \"cpu_s\": %.6f, \"compared\": %llu, \"wrong\": %llu",
               ranks.count, (unsigned long long)count_sums[0], (unsigned long long)count_sums[1], time_max[0],
               time_max[1], time_max[2], time_max[3], cpu_sum_s, (unsigned long long)compared.bytes,
               (unsigned long long)compared.wrong);
    for (int i = 0; i < more_count; ++i) {
        MPI_Reduce(&more[i].value, &more_max, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (ranks.mine == 0) printf(", \"%s\": %.6f", more[i].name, more_max);
    }
    if (ranks.mine == 0) printf("}\n");
}

/* Opens the file as a serial program does. */
UNUSED_OK static hid_t open_to_verify(const char *path) {
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) fail(path, "cannot be opened");
    return file;
}

UNUSED_OK static hid_t open_dataset(hid_t parent, const char *name) {
    hid_t dataset = H5Dopen2(parent, name, H5P_DEFAULT);
    if (dataset < 0) fail(name, "cannot be opened");
    return dataset;
}

/* Returns the rank whose part this rank verifies, which is another one. */
UNUSED_OK static int verified_rank(struct ranks ranks) { return (ranks.mine + 1) % ranks.count; }

/* Reads the selection of `space` into `found`. */
UNUSED_OK static void read_selected(hid_t dataset, hid_t type, hid_t memory, hid_t space, hid_t transfer, void *found) {
    if (H5Dread(dataset, type, memory, space, transfer, found) < 0) fail("H5Dread", "failed");
}

/* Prints on rank 0 the bytes that all ranks compared, and how many were wrong. Returns the exit code, equal on all
   ranks. `wrong` is another reason to call the data wrong. Collective. */
UNUSED_OK static int say_verified(struct ranks ranks, int wrong) {
    const struct compared all = all_compared();
    int any = 0;
    wrong |= all.wrong > 0;
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    if (ranks.mine == 0)
        printf("{\"verified\": %s, \"compared\": %llu, \"wrong\": %llu}\n", any ? "false" : "true",
               (unsigned long long)all.bytes, (unsigned long long)all.wrong);
    return any ? kExitWrongData : 0;
}

UNUSED_OK static void *new_array(uint64_t size_bytes) {
    void *array = malloc(size_bytes > 0 ? size_bytes : 1);
    if (array == NULL) fail("array", "out of memory");
    return array;
}

#endif
