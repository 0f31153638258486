/* The examples of the Cache VOL papers that read: a dataset is prefetched, and read in parts, epoch after epoch. Prints
 * a sum of what each epoch has read. With `mpi` as the second argument every rank reads a part, collectively. */
#include <stdlib.h>
#include <string.h>

#include <cache_new_h5api.h>

enum { kEpochs = 2, kSteps = 4 };

int main(int argc, char **argv) {
    int rank = 0, ranks = 1;
    const int parallel = argc > 2 && strcmp(argv[2], "mpi") == 0;
    if (argc < 2) return 2;
    const int native = getenv("HDF5_VOL_CONNECTOR") == NULL;
    hid_t pls_id = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
#ifdef H5_HAVE_PARALLEL
    if (parallel) {
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        H5Pset_fapl_mpio(pls_id, MPI_COMM_WORLD, MPI_INFO_NULL);
        H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    }
#endif
    if (H5Pset_fapl_cache(pls_id, "HDF5_CACHE_RD", true) < 0) return 1;
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, pls_id);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        unsigned long long sum = 0;
        for (int iter = 0; iter < kSteps; iter++) {
            const char name[] = {'s', (char)('0' + iter), '\0'};
            hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset);
            hsize_t dims[2];
            H5Sget_simple_extent_dims(space, dims, NULL);
            const hsize_t part[] = {dims[0] / (hsize_t)ranks, dims[1]}, start[] = {part[0] * (hsize_t)rank, 0};
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
            hid_t memory = H5Screate_simple(2, part, NULL);
            const size_t count = (size_t)(part[0] * part[1]);
            double *buffer = calloc(count, sizeof *buffer);
            // prefetch the dataset
            if (!native && H5Dprefetch(dataset, space, H5P_DEFAULT) < 0) return 1;
            if (H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, buffer) < 0) return 1;
            for (size_t i = 0; i < count; ++i) sum = sum * 31 + (unsigned long long)buffer[i];
            free(buffer);
            H5Sclose(memory);
            H5Sclose(space);
            H5Dclose(dataset);
        }
        printf("%d %d %llu\n", rank, epoch, sum);
    }
    if (H5Fclose(file) < 0) return 1;
    H5Pclose(pls_id);
    H5Pclose(transfer);
#ifdef H5_HAVE_PARALLEL
    if (parallel) MPI_Finalize();
#endif
    return 0;
}
