/* Small writes, or reads with computing to hide behind, with event sets or without. Prints one JSON object.
 *
 *   async_calls --file F --write [--async] [--count 10000] [--bytes 4096]
 *   async_calls --file F --make [--steps 40] [--bytes 4194304]
 *   async_calls --file F --read [--async] [--steps 40] [--bytes 4194304] [--compute-s 0.05]
 *
 * --write: seconds for all writes, the wait for the event set, and the close. --read: of each step one slab is read
 * ahead while the one before is computed with; seconds in HDF5 calls after the file was opened, without its close.
 */
#include <hdf5.h>

#include "program.h"

static hid_t events;

static void checked(int good, const char *what) {
    if (!good) fail(what, "failed");
}

static void wait_for_all(void) {
    size_t left = 0;
    hbool_t failed = 0;
    checked(H5ESwait(events, H5ES_WAIT_FOREVER, &left, &failed) >= 0 && !failed && left == 0, "H5ESwait");
}

static void fill(uint64_t *words, uint64_t count, uint64_t step) {
    for (uint64_t i = 0; i < count; ++i) words[i] = word_at(step, i);
}

static void write_small(const char *path, uint64_t count, uint64_t bytes, int async) {
    const hsize_t extent[] = {count, bytes / 8}, size[] = {1, bytes / 8};
    uint64_t *words = malloc(bytes);
    fill(words, bytes / 8, 1);
    /* Disables the sieve buffer, so that each write reaches the driver. */
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_sieve_buf_size(access, 0);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    const hid_t space = H5Screate_simple(2, extent, NULL), memory = H5Screate_simple(2, size, NULL);
    const hid_t dataset = H5Dcreate2(file, "rows", H5T_NATIVE_UINT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    checked(dataset >= 0, "H5Dcreate");
    const double begin_s = now_s();
    for (uint64_t i = 0; i < count; ++i) {
        const hsize_t at[] = {i, 0};
        H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
        checked((async ? H5Dwrite_async(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, words, events)
                       : H5Dwrite(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, words)) >= 0,
                "write");
    }
    if (async) wait_for_all();
    const double written_s = now_s();
    checked(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0, "close");
    printf("{\"write_s\":%.6f,\"total_s\":%.6f}\n", written_s - begin_s, now_s() - begin_s);
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(access);
    free(words);
}

static void make(const char *path, uint64_t steps, uint64_t bytes) {
    const hsize_t extent[] = {steps, bytes / 8}, size[] = {1, bytes / 8};
    uint64_t *words = malloc(bytes);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(2, extent, NULL), memory = H5Screate_simple(2, size, NULL);
    const hid_t dataset = H5Dcreate2(file, "slabs", H5T_NATIVE_UINT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (uint64_t step = 0; step < steps; ++step) {
        const hsize_t at[] = {step, 0};
        fill(words, bytes / 8, step);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
        checked(H5Dwrite(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, words) >= 0, "H5Dwrite");
    }
    checked(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0, "close");
    printf("{}\n");
}

/* Computes with the data for that long, including the check of the data. */
static int compute(const uint64_t *words, uint64_t count, uint64_t step, double seconds) {
    const double end_s = now_s() + seconds;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i += 61) wrong |= words[i] ^ word_at(step, i);
    volatile uint64_t work = 0;
    while (now_s() < end_s)
        for (int i = 0; i < 1000; ++i) work = work * 6364136223846793005u + 1;
    return wrong != 0;
}

static int read_ahead(const char *path, uint64_t steps, uint64_t bytes, double compute_s, int async) {
    const hsize_t size[] = {1, bytes / 8};
    uint64_t *slabs[2] = {malloc(bytes), malloc(bytes)};
    memset(slabs[0], 0, bytes);
    memset(slabs[1], 0, bytes);
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), dataset = H5Dopen2(file, "slabs", H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(2, size, NULL);
    double calls_s = 0, first_s = 0;
    int wrong = 0;
    const double begin_s = now_s();
    for (uint64_t step = 0; step <= steps; ++step) {
        const double call_s = now_s();
        if (async) wait_for_all();
        if (step < steps) {
            const hsize_t at[] = {step, 0};
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
            uint64_t *into = slabs[step % 2];
            checked((async ? H5Dread_async(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, into, events)
                           : H5Dread(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, into)) >= 0,
                    "read");
        }
        calls_s += now_s() - call_s;
        if (step == 1) first_s = calls_s; /* no computing hides the first slab */
        if (step > 0) wrong |= compute(slabs[(step - 1) % 2], bytes / 8, step - 1, compute_s);
    }
    printf("{\"calls_s\":%.6f,\"first_s\":%.6f,\"total_s\":%.6f}\n", calls_s, first_s, now_s() - begin_s);
    H5Sclose(space);
    H5Sclose(memory);
    checked(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0, "close");
    return wrong ? kExitWrongData : 0;
}

int main(int argc, char **argv) {
    const char *path = argument(argc, argv, "--file", NULL);
    const int async = flag(argc, argv, "--async");
    int status = 0;
    if (path == NULL) fail("--file", "is needed");
    events = H5EScreate();
    if (flag(argc, argv, "--write"))
        write_small(path, count_argument(argc, argv, "--count", "10000"), count_argument(argc, argv, "--bytes", "4096"),
                    async);
    else if (flag(argc, argv, "--make"))
        make(path, count_argument(argc, argv, "--steps", "40"), count_argument(argc, argv, "--bytes", "4194304"));
    else
        status = read_ahead(path, count_argument(argc, argv, "--steps", "40"),
                            count_argument(argc, argv, "--bytes", "4194304"),
                            seconds_argument(argc, argv, "--compute-s", "0.05"), async);
    H5ESclose(events);
    return status;
}
