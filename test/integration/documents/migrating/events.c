/* Stands for a program that calls Async VOL: it writes through an event set, and waits for its file. */
#include <h5_async_lib.h>

int main(void) {
    static int values[100000];
    const hsize_t length = 100000;
    const hid_t file = H5Fcreate("output.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &length, NULL);
    const hid_t data = H5Dcreate2(file, "field", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t events = H5EScreate();
    size_t left;
    hbool_t failed;
    if (H5Dwrite_async(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values, events) < 0) return 1;
    if (H5ESwait(events, H5ES_WAIT_FOREVER, &left, &failed) < 0 || failed) return 2;
    if (H5Fwait(file, H5P_DEFAULT) < 0) return 3;
    H5ESclose(events);
    H5Dclose(data);
    H5Sclose(space);
    return H5Fclose(file) < 0;
}
