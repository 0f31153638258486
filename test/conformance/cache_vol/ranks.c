/* Cache VOL's calls made by ranks that write one file together: `cache_vol_ranks PART FILE`. A call that fails ends the
 * program. Natively nothing is called. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cache_new_h5api.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                           \
        }                                                                           \
    } while (0)
#define DO(call) CHECK(getenv("HDF5_VOL_CONNECTOR") == NULL || (call) >= 0)

enum { kRows = 400, kColumns = 256, kSteps = 6 };

static int rank, ranks;

static void write_rows(hid_t dataset, int step) {
    static int values[kRows * kColumns], read[kRows * kColumns];
    const hsize_t part[] = {kRows, kColumns}, start[] = {(hsize_t)(kRows * rank), 0};
    const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(2, part, NULL);
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(list, step % 2 == 0 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
    for (int i = 0; i < kRows * kColumns; ++i) values[i] = i * (step + 2) + rank;
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, list, values) >= 0);
    CHECK(H5Dread(dataset, H5T_NATIVE_INT, memory, space, list, read) >= 0);
    CHECK(memcmp(values, read, sizeof values) == 0);
    if (getenv("HDF5_VOL_CONNECTOR") != NULL) {
        memset(read, 0, sizeof read);
        CHECK(H5Dread_from_cache(dataset, H5T_NATIVE_INT, memory, space, list, read) >= 0);
        CHECK(memcmp(values, read, sizeof values) == 0);
        memset(read, 0, sizeof read);
        CHECK(H5Dread_to_cache(dataset, H5T_NATIVE_INT, memory, space, list, read) >= 0);
        CHECK(memcmp(values, read, sizeof values) == 0);
    }
    H5Pclose(list);
    H5Sclose(space);
    H5Sclose(memory);
}

/* While all have paused: each reads what the next rank has just written. Odd steps are never started again. */
static void read_paused(hid_t file, hid_t dataset, int step) {
    static int values[kRows * kColumns], read[kRows * kColumns];
    const int next = (rank + 1) % ranks;
    const hsize_t part[] = {kRows, kColumns}, start[] = {(hsize_t)(kRows * rank), 0},
                  other[] = {(hsize_t)(kRows * next), 0};
    const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(2, part, NULL);
    DO(H5Fcache_async_op_pause(file));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < kRows * kColumns; ++i) values[i] = i * (step + 3) + rank;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values) >= 0);
    MPI_Barrier(MPI_COMM_WORLD);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, other, NULL, part, NULL);
    CHECK(H5Dread(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, read) >= 0);
    for (int i = 0; i < kRows * kColumns; ++i) CHECK(read[i] == i * (step + 3) + next);
    hsize_t kept = 0;
    DO(H5Fquery_cache(file, H5P_DEFAULT, &kept));
    if (rank == 0) printf("%s\n", kept >= sizeof values ? "kept" : "not kept");
    MPI_Barrier(MPI_COMM_WORLD);
    if (step % 2 == 0) DO(H5Fcache_async_op_start(file));
    H5Sclose(space);
    H5Sclose(memory);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(argc == 3);
    const int removes = strcmp(argv[1], "remove") == 0, alone = strcmp(argv[1], "alone") == 0;
    const int reads = strcmp(argv[1], "read") == 0;
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_obj_track_times(creation, 0);
    const hid_t file = H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, list);
    CHECK(file >= 0);
    DO(H5Fcache_create(file, H5P_DEFAULT, 1 << 20, WRITE, TEMPORAL));
    DO(H5Fcache_async_close_set(file));
    const hsize_t dims[] = {(hsize_t)(kRows * ranks), kColumns};
    const hid_t space = H5Screate_simple(2, dims, NULL);
    for (int step = 0; step < kSteps; ++step) {
        char name[16];
        snprintf(name, sizeof name, "step%d", step);
        const hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        if (reads) {
            read_paused(file, dataset, step);
            CHECK(H5Dclose(dataset) >= 0);
            continue;
        }
        /* One rank of several, or all; and not started by all of them. */
        if (!alone || step % ranks == rank) DO(H5Fcache_async_op_pause(file));
        write_rows(dataset, step);
        DO(H5Dprefetch(dataset, H5S_ALL, H5P_DEFAULT));
        if (!alone) DO(H5Dcache_async_op_start(dataset));
        CHECK(H5Dclose(dataset) >= 0);
        if (step == 2) CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
        if (step == 3 && (!alone || rank == ranks - 1)) DO(H5Fcache_async_close_wait(file));
        if (removes && step == 3) DO(H5Fcache_remove(file));
        if (removes && step == 4) {
            H5E_BEGIN_TRY { /* ranks agree on staging when they open a file; without a connector there is no such call
                             */
                CHECK(H5Fcache_create(file, H5P_DEFAULT, 1 << 20, WRITE, TEMPORAL) < 0);
            }
            H5E_END_TRY
        }
    }
    CHECK(H5Fclose(file) >= 0);
    H5Sclose(space);
    H5Pclose(list);
    H5Pclose(creation);
    MPI_Finalize();
    return 0;
}
