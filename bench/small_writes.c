/* Makes many small writes: one contiguous dataset written in pieces of 4 KiB (512 words) with the sieve buffer off, so
 * that every H5Dwrite reaches the file driver.
 *
 *   small_writes --file F [--count 20000] [--words 512] [--shuffle]
 *   small_writes --file F --verify [--count 20000] [--words 512]
 *
 * Prints the seconds from H5Fcreate to the end of H5Fclose, and the parts of the writes and of the close. */
#include <hdf5.h>

#include "program.h"

/* Returns the i-th piece to write: in order, or in a fixed scattered order (a step without a common factor with
   `count`). */
static uint64_t piece_at(uint64_t i, uint64_t count, int shuffle) {
    if (!shuffle) return i;
    uint64_t stride = count / 2 + count / 8 + 1;
    for (;; ++stride) {
        uint64_t a = stride, b = count;
        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return i * stride % count;
    }
}

static uint64_t *new_data(uint64_t words) {
    uint64_t *data = malloc(words * sizeof *data);
    if (data == NULL) fail("data", "out of memory");
    for (uint64_t i = 0; i < words; ++i) data[i] = word_at(7, i);
    return data;
}

static void verify_file(const char *path, const uint64_t *expected, uint64_t words) {
    uint64_t *data = malloc(words * sizeof *data);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t dataset = file < 0 ? H5I_INVALID_HID : H5Dopen2(file, "data", H5P_DEFAULT);
    if (data == NULL || dataset < 0) fail(path, "cannot be opened");
    if (H5Dread(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) fail(path, "cannot be read");
    H5Dclose(dataset);
    H5Fclose(file);
    if (memcmp(data, expected, words * sizeof *data) != 0) {
        fprintf(stderr, "%s: wrong data\n", path);
        exit(kExitWrongData);
    }
    free(data);
    printf("{\"verified\": true, \"compared\": %llu}\n", (unsigned long long)(words * sizeof *data));
}

static void write_file(const char *path, const uint64_t *data, uint64_t count, hsize_t piece, int shuffle) {
    hsize_t words = count * piece;
    double start_s = 0, create_s = 0, writes_s = 0, close_s = 0;
    hid_t access, file, space, memory, dataset;
    herr_t done;
    uint64_t *order = malloc(count * sizeof *order);
    if (order == NULL) fail("order", "out of memory");
    for (uint64_t i = 0; i < count; ++i) order[i] = piece_at(i, count, shuffle);

    TIMED(start_s, done, H5open());
    TIMED(create_s, access, H5Pcreate(H5P_FILE_ACCESS));
    TIMED(create_s, done, H5Pset_sieve_buf_size(access, 0));
    TIMED(create_s, file, H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, access));
    TIMED(create_s, space, H5Screate_simple(1, &words, NULL));
    TIMED(create_s, memory, H5Screate_simple(1, &piece, NULL));
    TIMED(create_s, dataset, H5Dcreate2(file, "data", H5T_NATIVE_UINT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    double begin_s = now_s();
    for (uint64_t i = 0; i < count; ++i) {
        hsize_t at = order[i] * piece;
        if (H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &piece, NULL) < 0) fail("hyperslab", "failed");
        if (H5Dwrite(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, data + at) < 0) fail("H5Dwrite", "failed");
    }
    writes_s = now_s() - begin_s;
    TIMED(close_s, done, H5Dclose(dataset));
    TIMED(close_s, done, H5Sclose(memory));
    TIMED(close_s, done, H5Sclose(space));
    TIMED(close_s, done, H5Pclose(access));
    TIMED(close_s, done, H5Fclose(file));
    printf("{\"bytes\": %llu, \"count\": %llu, \"start_s\": %.6f, \"create_s\": %.6f, \"writes_s\": %.6f, "
           "\"close_s\": %.6f, \"total_s\": %.6f}\n",
           (unsigned long long)(words * sizeof(uint64_t)), (unsigned long long)count, start_s, create_s, writes_s,
           close_s, create_s + writes_s + close_s);
    free(order);
}

int main(int argc, char **argv) {
    const char *path = argument(argc, argv, "--file", NULL);
    uint64_t count = count_argument(argc, argv, "--count", "20000");
    if (path == NULL) fail("--file", "is needed");
    const uint64_t piece = count_argument(argc, argv, "--words", "512");
    uint64_t *data = new_data(count * piece);
    if (flag(argc, argv, "--verify")) verify_file(path, data, count * piece);
    else write_file(path, data, count, piece, flag(argc, argv, "--shuffle"));
    free(data);
    return 0;
}
