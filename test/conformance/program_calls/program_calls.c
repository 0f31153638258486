/* The calls of forebay/forebay.h. One part a run: `program_calls PART FILE`. A check that does not hold ends the
 * program with status 1. Natively each call is an error, and the rest is the same. */
#include <errno.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <forebay/forebay.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

enum { kRows = 1024, kColumns = 512 };

static int values[kRows * kColumns];

/* Whether the calls are expected to succeed. */
static bool served(void) { return getenv("HDF5_VOL_CONNECTOR") != NULL; }
#define DO(call) CHECK((call) == (served() ? 0 : -1) && (served() || errno == ENOSYS))
/* It fails, with this number where forebay is loaded. */
#define FAILS(number, call) CHECK((errno = 0, (call)) == -1 && errno == (served() ? (number) : ENOSYS))

static hid_t make(hid_t file, const char *name, bool chunked) {
    const hsize_t dims[] = {kRows, kColumns}, chunk[] = {100, 200};
    const hid_t space = H5Screate_simple(2, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_obj_track_times(list, false) >= 0);
    if (chunked) CHECK(H5Pset_chunk(list, 2, chunk) >= 0 && H5Pset_deflate(list, 1) >= 0);
    const hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    for (int i = 0; i < kRows * kColumns; ++i) values[i] = i * (chunked ? 3 : 7);
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Pclose(list);
    H5Sclose(space);
    return dataset;
}

static void write_file(const char *path) {
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(file >= 0);
    DO(forebay_file_pause_drain(file));
    CHECK(H5Dclose(make(file, "plain", false)) >= 0);
    DO(forebay_file_resume_drain(file));
    CHECK(H5Dclose(make(file, "packed", true)) >= 0);
    CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
    DO(forebay_file_wait_durable(file));
    char text[4096] = "", part[8] = "";
    uint64_t length = 0, again = 0;
    DO(forebay_file_statistics(file, text, sizeof text, &length));
    DO(forebay_file_statistics(file, part, sizeof part, &again));
    DO(forebay_file_statistics(file, NULL, 0, &again));
    if (served()) {
        CHECK(length == strlen(text) && again == length && strncmp(text, part, 7) == 0 && part[7] == '\0');
        puts(text);
    }
    CHECK(H5Fclose(file) >= 0);
}

static void read_rows(hid_t dataset, const uint64_t *rows, size_t count) {
    unsigned long long sum = 0;
    int row[kColumns];
    const hid_t space = H5Dget_space(dataset);
    const hsize_t columns[] = {kColumns}, block[] = {1, kColumns};
    const hid_t memory = H5Screate_simple(1, columns, NULL);
    for (size_t i = 0; i < count; ++i) {
        const hsize_t start[] = {rows[i], 0};
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, block, NULL) >= 0);
        CHECK(H5Dread(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, row) >= 0);
        for (int j = 0; j < kColumns; ++j) sum = sum * 31 + (unsigned)row[j];
    }
    printf("%llu\n", sum);
    H5Sclose(memory);
    H5Sclose(space);
}

/* PROGRAM_CALLS_CACHED: the file is read through the cache. */
static void read_file(const char *path) {
    const bool cached = getenv("PROGRAM_CALLS_CACHED") != NULL;
    if (!cached) H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
#define ASK(call) CHECK(((call) == 0) == cached)
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(file >= 0);
    static uint64_t rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = (uint64_t)(i * 389 % kRows);
    const char *names[] = {"plain", "packed"};
    const uint64_t offsets[] = {0, 1000000, UINT64_MAX}, lengths[] = {4096, UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 2; ++i) {
        const hid_t dataset = H5Dopen2(file, names[i], H5P_DEFAULT), space = H5Dget_space(dataset);
        const hsize_t start[] = {5, 3}, stride[] = {9, 2}, count[] = {50, 100};
        ASK(forebay_file_pin(file, 1));
        ASK(forebay_dataset_follow(dataset, kRows, rows));
        read_rows(dataset, rows, kRows);
        uint64_t left = 7, evicted = 7;
        ASK(forebay_file_prefetch_left(file, &left));
        ASK(forebay_dataset_prefetch(dataset, H5S_ALL));
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL) >= 0);
        ASK(forebay_dataset_prefetch(dataset, space));
        ASK(forebay_file_prefetch(file, 3, offsets, lengths));
        read_rows(dataset, rows, kRows);
        ASK(forebay_file_prefetch_cancel(file));
        ASK(forebay_file_evict(file, &evicted));
        ASK(forebay_file_evict(file, NULL));
        read_rows(dataset, rows, kRows);
        ASK(forebay_file_prefetch(file, 0, NULL, NULL));
        ASK(forebay_file_pin(file, 0));
        read_rows(dataset, rows, kRows);
        ASK(forebay_dataset_follow(dataset, 0, NULL));
        H5Sclose(space);
        CHECK(H5Dclose(dataset) >= 0);
    }
    char text[4096] = "";
    if (forebay_file_statistics(file, text, sizeof text, NULL) == 0) fprintf(stderr, "%s\n", text);
    CHECK(H5Fclose(file) >= 0);
}

static void do_wrong(const char *path) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), dataset = make(file, "plain", false);
    const int64_t wrong[] = {-1, 0, 1, 123456789, INT64_MAX, INT64_MIN, H5P_FILE_ACCESS, H5T_NATIVE_INT};
    uint64_t number = 7;
    const uint64_t rows[] = {0, kRows};
    char text[16];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        const int64_t id = wrong[i];
        FAILS(EINVAL, forebay_file_pause_drain(id));
        FAILS(EINVAL, forebay_file_resume_drain(id));
        FAILS(EINVAL, forebay_file_wait_durable(id));
        FAILS(EINVAL, forebay_file_prefetch(id, 0, NULL, NULL));
        FAILS(EINVAL, forebay_dataset_prefetch(id, 0));
        FAILS(EINVAL, forebay_dataset_follow(id, 1, rows));
        FAILS(EINVAL, forebay_file_prefetch_left(id, &number));
        FAILS(EINVAL, forebay_file_prefetch_cancel(id));
        FAILS(EINVAL, forebay_file_pin(id, 1));
        FAILS(EINVAL, forebay_file_evict(id, &number));
        FAILS(EINVAL, forebay_file_statistics(id, text, sizeof text, &number));
        if (id != 0) FAILS(EINVAL, forebay_dataset_prefetch(dataset, id));
    }
    FAILS(EINVAL, forebay_file_pause_drain(dataset));
    FAILS(EINVAL, forebay_dataset_follow(file, 1, rows));
    FAILS(EINVAL, forebay_dataset_follow(dataset, 2, rows));
    FAILS(EINVAL, forebay_dataset_follow(dataset, 1, NULL));
    FAILS(EINVAL, forebay_file_prefetch(file, 1, NULL, NULL));
    FAILS(EINVAL, forebay_file_statistics(file, NULL, 16, &number));
    FAILS(EINVAL, forebay_statistics(NULL, 16, &number));
    FAILS(EINVAL, forebay_version(NULL, NULL, NULL));
    FAILS(EINVAL, forebay_resume());
    /* A file that is written is not read through the cache. */
    FAILS(ENOTSUP, forebay_file_pin(file, 1));
    FAILS(ENOTSUP, forebay_file_evict(file, NULL));
    FAILS(ENOTSUP, forebay_file_prefetch(file, 0, NULL, NULL));
    FAILS(ENOTSUP, forebay_file_prefetch_left(file, &number));
    FAILS(ENOTSUP, forebay_path_prefetch(path, 0, NULL, NULL));
    FAILS(ENOTSUP, forebay_path_prefetch_left(path, &number));
    FAILS(ENOTSUP, forebay_path_prefetch_cancel(path));
    FAILS(ENOENT, forebay_path_prefetch("/dev/null", 0, NULL, NULL));
    FAILS(ENOENT, forebay_path_prefetch_left("/no/such/file", &number));
    FAILS(EINVAL, forebay_path_prefetch_cancel(NULL));
    FAILS(EINVAL, forebay_path_prefetch(path, 1, NULL, NULL));
    FAILS(EINVAL, forebay_path_prefetch_left(path, NULL));
    CHECK(number == 7); /* results are not touched on failure */
    DO(forebay_file_resume_drain(file));
    DO(forebay_file_pause_drain(file));
    DO(forebay_file_pause_drain(file));
    CHECK(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0);
    FAILS(EINVAL, forebay_file_pause_drain(file));
    FAILS(EINVAL, forebay_dataset_follow(dataset, 1, rows));
    FAILS(ENOENT, forebay_path_prefetch(path, 0, NULL, NULL));
    unsigned major = 0, minor = 0, patch = 0;
    DO(forebay_version(&major, &minor, &patch));
    if (served()) {
        CHECK(major == FOREBAY_VERSION_MAJOR && minor == FOREBAY_VERSION_MINOR && patch == FOREBAY_VERSION_PATCH);
        printf("%u.%u.%u\n", major, minor, patch);
    }
    char *const counted = calloc(1, 1 << 16);
    CHECK(counted != NULL);
    DO(forebay_statistics(counted, 1 << 16, &number));
    if (served()) CHECK(number == strlen(counted) && strstr(counted, "files_opened") != NULL);
    free(counted);
}

static hid_t create(const char *name) {
    const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(file >= 0 && H5Dclose(make(file, "plain", false)) >= 0);
    return file;
}

static void open_and_close(const char *name, unsigned flags) {
    const hid_t file = H5Fopen(name, flags, H5P_DEFAULT);
    CHECK(file >= 0);
    if (flags == H5F_ACC_RDWR) CHECK(H5Dclose(make(file, "more", true)) >= 0);
    CHECK(H5Fclose(file) >= 0);
}

/* Files whose names begin with "native" are made while paused. */
static void pause_and_resume(void) {
    const hid_t before = create("before.h5");
    DO(forebay_pause());
    const hid_t native = create("native.h5");
    DO(forebay_pause());
    CHECK(H5Fclose(create("native again.h5")) >= 0);
    DO(forebay_resume());
    CHECK(H5Fclose(create("native yet.h5")) >= 0);
    CHECK(H5Dclose(make(before, "late", true)) >= 0); /* it goes on as it is, also where it is opened again */
    open_and_close("before.h5", H5F_ACC_RDWR);
    open_and_close("native.h5", H5F_ACC_RDWR);
    DO(forebay_resume());
    CHECK(H5Dclose(make(native, "late", true)) >= 0);
    CHECK(H5Fclose(before) >= 0 && H5Fclose(native) >= 0);
    CHECK(H5Fclose(create("after.h5")) >= 0);
    open_and_close("native again.h5", H5F_ACC_RDWR); /* from now on it is staged as any other */
    DO(forebay_pause());
    open_and_close("after.h5", H5F_ACC_RDONLY);
    DO(forebay_resume());
    FAILS(EINVAL, forebay_resume());
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (!served()) H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (strcmp(argv[1], "write") == 0) write_file(argv[2]);
    else if (strcmp(argv[1], "read") == 0) read_file(argv[2]);
    else if (strcmp(argv[1], "wrong") == 0) do_wrong(argv[2]);
    else if (strcmp(argv[1], "pause") == 0) pause_and_resume();
    else return 2;
    return 0;
}
