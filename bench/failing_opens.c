/* Measures opens that fail. Prints one JSON object: microseconds of the first open, and the median of the others.
 *
 *   failing_opens FILE OPENS */
#include <hdf5.h>

#include "program.h"

static double open_us(const char *path) {
    const double begin_s = now_s();
    if (H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT) >= 0) fail(path, "can be opened");
    return 1e6 * (now_s() - begin_s);
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    if (argc != 3) fail("failing_opens", "FILE OPENS");
    const size_t opens = strtoul(argv[2], NULL, 10);
    double *const took_us = calloc(opens, sizeof *took_us);
    if (opens == 0 || took_us == NULL) fail("OPENS", "none, or too many");
    if (H5open() < 0 || H5Eset_auto2(H5E_DEFAULT, NULL, NULL) < 0) fail("HDF5", "does not start");
    const double first_us = open_us(argv[1]);
    for (size_t number = 0; number < opens; ++number) took_us[number] = open_us(argv[1]);
    qsort(took_us, opens, sizeof *took_us, compare);
    printf("{\"first_us\":%.1f,\"median_us\":%.2f}\n", first_us, took_us[opens / 2]);
    free(took_us);
    return 0;
}
