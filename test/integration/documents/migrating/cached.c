/* Stands for a program that calls Cache VOL: it pauses the drain of its file, and has it go on. */
#include <stdio.h>

#include <H5VLcache_ext.h>
#include <cache_new_h5api.h>

int main(void) {
    static int values[100000];
    const hsize_t length = 100000;
    const hid_t file = H5Fcreate("output.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &length, NULL);
    const hid_t data = H5Dcreate2(file, "field", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Fcache_async_op_pause(file) < 0) return 1;
    if (H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 2;
    if (H5Fcache_async_op_start(file) < 0) return 3;
    H5Dclose(data);
    H5Sclose(space);
    return H5Fclose(file) < 0;
}
