/* Facts and rows of the parallel cases. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "parallel_cases.h"

int rank, ranks, exit_status;
static char facts[16384];
static size_t facts_bytes;

void add_fact(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(facts + facts_bytes, sizeof facts - facts_bytes, format, arguments);
    va_end(arguments);
    if (bytes > 0) facts_bytes += (size_t)bytes;
    if (facts_bytes >= sizeof facts) facts_bytes = sizeof facts - 1;
}

void print_facts(void) {
    if (fwrite(facts, 1, facts_bytes, stdout) != facts_bytes || fflush(stdout) != 0) exit_status = kExitFailure;
    facts_bytes = 0;
}

int64_t checked(const char *what, int64_t result) {
    add_fact("rank %d: %s: %s\n", rank, what, result < 0 ? "failed" : "ok");
    if (result < 0 && exit_status == 0) exit_status = kExitFailure;
    return result;
}

static uint64_t word_at(uint64_t row, uint64_t column, uint64_t version) {
    uint64_t x = (version << 56) + (row << 32) + column + 0x9E3779B97F4A7C15u; /* the mixing step of SplitMix64 */
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

hid_t access_through(MPI_Comm communicator) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (H5Pset_fapl_mpio(list, communicator, MPI_INFO_NULL) < 0) add_fact("rank %d: no mpio list\n", rank);
    return list;
}

static hid_t transfer_list(int collective) {
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    (void)H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    return list;
}

hid_t create_rows(hid_t file, const char *name, int rows) {
    const hsize_t extents[2] = {(hsize_t)rows, kRowWords};
    const hid_t space = H5Screate_simple(2, extents, NULL);
    const hid_t dataset = H5Dcreate2(file, name, H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Sclose(space);
    return dataset;
}

static herr_t move_row(hid_t dataset, int row, uint64_t *words, int collective, int writing) {
    const hsize_t start[2] = {(hsize_t)row, 0}, count[2] = {1, kRowWords}, words_count = kRowWords;
    const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &words_count, NULL),
                list = transfer_list(collective);
    herr_t done = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    if (done >= 0)
        done = writing ? H5Dwrite(dataset, H5T_NATIVE_UINT64, memory, space, list, words)
                       : H5Dread(dataset, H5T_NATIVE_UINT64, memory, space, list, words);
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
    return done;
}

herr_t write_row(hid_t dataset, int row, uint64_t version, int collective) {
    uint64_t *words = malloc(kRowWords * sizeof *words);
    if (words == NULL) return -1;
    for (uint64_t i = 0; i < kRowWords; ++i) words[i] = word_at((uint64_t)row, i, version);
    const herr_t done = move_row(dataset, row, words, collective, 1);
    free(words);
    return done;
}

void check_row(hid_t dataset, int row, uint64_t version, int collective) {
    uint64_t *words = calloc(kRowWords, sizeof *words);
    if (words == NULL) return;
    if (move_row(dataset, row, words, collective, 0) < 0) {
        (void)checked("read", -1);
    } else {
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < kRowWords; ++i) wrong += words[i] != word_at((uint64_t)row, i, version);
        add_fact("rank %d: row %d, version %u: %s\n", rank, row, (unsigned)version,
                 wrong == 0 ? "right" : "WRONG DATA");
        if (wrong > 0) {
            fprintf(stderr, "rank %d, row %d: %llu of %d words are not of version %u\n", rank, row,
                    (unsigned long long)wrong, kRowWords, (unsigned)version);
            exit_status = kExitWrongData;
        }
    }
    free(words);
}
