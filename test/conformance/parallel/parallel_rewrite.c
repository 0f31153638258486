/* Makes a file anew twice, then opens it twice for writing: many datasets and flushes each time, space at the end that
 * nobody writes, and space that goes. For the calls that reach the file system (test_parallel_target_calls.py). */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 6, kElements = 20000 };

static void need(int succeeded, const char *what) {
    if (succeeded) return;
    fprintf(stderr, "%s failed\n", what);
    H5Eprint2(H5E_DEFAULT, stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static hid_t create(hid_t file, const char *name, hsize_t elements, hid_t creation) {
    hid_t space = H5Screate_simple(1, &elements, NULL);
    hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    need(dataset >= 0, name);
    H5Sclose(space);
    return dataset;
}

static void write_part(hid_t dataset, int rank, int ranks, hid_t transfer) {
    static double values[kElements];
    hsize_t count = kElements / (hsize_t)ranks, begin = (hsize_t)rank * count;
    for (hsize_t i = 0; i < count; ++i) values[i] = (double)(begin + i);
    hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &count, NULL);
    need(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, values) >= 0, "H5Dwrite");
    H5Sclose(space);
    H5Sclose(memory);
}

static void use(hid_t file, int pass, int rank, int ranks) {
    char name[32];
    hid_t collective = H5Pcreate(H5P_DATASET_XFER), unfilled = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE);
    H5Pset_fill_time(unfilled, H5D_FILL_TIME_NEVER);
    for (int round = 0; round < kRounds; ++round) {
        snprintf(name, sizeof name, "dataset%d_%d", pass, round);
        hid_t dataset = create(file, name, kElements, H5P_DEFAULT);
        write_part(dataset, rank, ranks, round % 2 ? collective : H5P_DEFAULT);
        H5Dclose(dataset);
        need(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
    }
    H5Dclose(create(file, "unwritten", 50000, unfilled));
    need(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
    need(H5Ldelete(file, "unwritten", H5P_DEFAULT) >= 0, "H5Ldelete");
    H5Pclose(collective);
    H5Pclose(unfilled);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    for (int pass = 0; pass < 4; ++pass) {
        hid_t file = pass < 2 ? H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access)
                              : H5Fopen(argv[1], H5F_ACC_RDWR, access);
        need(file >= 0, pass < 2 ? "H5Fcreate" : "H5Fopen");
        use(file, pass, rank, ranks);
        need(H5Fclose(file) >= 0, "H5Fclose");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    H5Pclose(access);
    MPI_Finalize();
    return 0;
}
