/* Opens small files read-only, repeatedly. Prints one JSON object: the seconds, the processor seconds among them, and
 * the rows of all opened files.
 *
 *   opens FOLDER OPENS FILES
 *
 * FOLDER has FILES files 0.h5, 1.h5, ... with a dataset `rows`. One open before the clock starts loads the
 * libraries. */
#include <hdf5.h>

#include "program.h"

/* Returns the number of rows of the file's dataset. */
static uint64_t open_one(const char *folder, unsigned long number) {
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%lu.h5", folder, number);
    if (length < 0 || (size_t)length >= sizeof path) fail(folder, "too long");
    hsize_t extent[H5S_MAX_RANK] = {0};
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(file, "rows", H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    if (H5Sget_simple_extent_dims(space, extent, NULL) < 1) fail(path, "cannot be read");
    if (H5Sclose(space) < 0 || H5Dclose(dataset) < 0 || H5Fclose(file) < 0) fail(path, "cannot be closed");
    return extent[0];
}

int main(int argc, char **argv) {
    if (argc != 4) fail("opens", "FOLDER OPENS FILES");
    const unsigned long opens = strtoul(argv[2], NULL, 10), files = strtoul(argv[3], NULL, 10);
    if (files == 0) fail("FILES", "none");
    (void)open_one(argv[1], 0);
    uint64_t rows = 0;
    const double begin_s = now_s();
    const clock_t begin = clock();
    for (unsigned long number = 0; number < opens; ++number) rows += open_one(argv[1], number % files);
    printf("{\"seconds\":%.6f,\"processor_seconds\":%.6f,\"sum\":%llu}\n", now_s() - begin_s,
           (double)(clock() - begin) / CLOCKS_PER_SEC, (unsigned long long)rows);
    return 0;
}
