/* Writes a file, and waits until it is where it belongs: on the real file system, synced.
 *
 *     forebay run -- ./checkpoint checkpoint.h5
 *
 * Without forebay the call fails, and HDF5's own flush is all there is.
 */
#include <forebay/forebay.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

enum { kElements = 1 << 20 };

int main(int argc, char **argv) {
    const hsize_t shape[] = {kElements};
    double *const values = calloc(kElements, sizeof *values);
    if (argc != 2 || values == NULL) return 2;
    const hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, shape, NULL);
    const hid_t set = H5Dcreate2(file, "values", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 1;
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) return 1;

    int durable;
    H5E_BEGIN_TRY { durable = forebay_file_wait_durable(file) == 0; }
    H5E_END_TRY
    puts(durable ? "the file is whole, and on its device" : "flushed; forebay is not there");

    H5Dclose(set);
    H5Sclose(space);
    free(values);
    return H5Fclose(file) < 0;
}
