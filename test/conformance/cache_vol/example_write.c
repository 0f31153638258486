/* The examples of the Cache VOL papers that write: a loop of steps between which a program computes. With `mpi` as the
 * second argument every rank writes a part of each step, collectively. */
#include <stdlib.h>
#include <string.h>

#include <H5LS.h>

#define True true /* as the paper has it */
enum { kSteps = 4, kRows = 300, kColumns = 200 };

int main(int argc, char **argv) {
    int rank = 0, ranks = 1;
    const int parallel = argc > 2 && strcmp(argv[2], "mpi") == 0;
    if (argc < 2) return 2;
    hid_t plist_id = H5Pcreate(H5P_FILE_ACCESS);
    hid_t transfer = H5Pcreate(H5P_DATASET_XFER), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(creation, false);
#ifdef H5_HAVE_PARALLEL
    if (parallel) {
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        H5Pset_fapl_mpio(plist_id, MPI_COMM_WORLD, MPI_INFO_NULL);
        H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    }
#endif
    /* creating local storage variable through property list */
    hid_t plist_ls = H5Pcreate(H5P_LOCAL_STORAGE_CREATE);
    LocalStorage *H5LS = H5LScreate(plist_ls);
    bool p = true;
    if (H5LS == NULL) return 1;
    if (getenv("EXAMPLE_BY_VALUE") == NULL) {
        if (H5Pset_fapl_cache(plist_id, "LOCAL_STORAGE", H5LS) < 0) return 1;
        if (H5Pset_fapl_cache(plist_id, "HDF5_CACHE_WR", &p) < 0) return 1;
    } else if (H5Pset_fapl_cache(plist_id, "HDF5_CACHE_WR", True) < 0) {
        return 1;
    }
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, plist_id);
    double *buffer = malloc(sizeof *buffer * kRows * kColumns);
    const hsize_t dims[] = {(hsize_t)(kRows * ranks), kColumns}, part[] = {kRows, kColumns};
    const hsize_t start[] = {(hsize_t)(kRows * rank), 0};
    hid_t space = H5Screate_simple(2, dims, NULL), memory = H5Screate_simple(2, part, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
    for (int iter = 0; iter < kSteps; iter++) {
        const char name[] = {'s', (char)('0' + iter), '\0'};
        hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
        for (int i = 0; i < kRows * kColumns; ++i) buffer[i] = i + 1e6 * iter + 1e9 * rank; /* compute */
        if (H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, buffer) < 0) return 1;
        if (H5Dclose(dataset) < 0) return 1;
    }
    if (H5Fclose(file) < 0) return 1;
    free(buffer);
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(creation);
    H5Pclose(transfer);
    H5Pclose(plist_id);
    H5Pclose(plist_ls);
    H5LSclose(H5LS);
#ifdef H5_HAVE_PARALLEL
    if (parallel) MPI_Finalize();
#endif
    return 0;
}
