/* Programs with event sets, one for each argument. They know nothing of forebay, and print what they see: natively
 * every call ends before it returns, and the data are the same.
 *
 *   async_calls CASE [CONTROL]      CONTROL: the control file of the slow file system that is the working directory
 *
 * Lines that begin with "async" tell how asynchronous a call was; they differ from a native run.
 */
#include "async_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int exit_status = 0;
static const char *control_path = NULL;
static uint64_t random_state = 88172645463325252u;

uint64_t next_random(uint64_t below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

int checked(int good, const char *what, int line) {
    if (!good) {
        printf("WRONG %s in line %d\n", what, line);
        exit_status = 1;
    }
    return good;
}

void slowfs(const char *line) {
    const int control = open(control_path == NULL ? "" : control_path, O_WRONLY);
    CHECK(control >= 0 && write(control, line, strlen(line)) == (ssize_t)strlen(line));
    if (control >= 0) close(control);
}

size_t wait_all(hid_t events, int *failed) {
    size_t left = 99;
    hbool_t error = 0;
    CHECK(H5ESwait(events, H5ES_WAIT_FOREVER, &left, &error) >= 0);
    if (failed != NULL) *failed = error;
    else CHECK(!error);
    return left;
}

uint64_t sum_of(const void *bytes, size_t size) {
    uint64_t sum = 1469598103934665603u;
    for (size_t i = 0; i < size; ++i) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return sum;
}

hid_t make_file(const char *path, hid_t access) {
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    CHECK(file >= 0);
    return file;
}

hid_t make_dataset(hid_t file, const char *name, hid_t type, int rank, const hsize_t *extent, const hsize_t *chunk) {
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(rank, extent, NULL);
    if (chunk != NULL) CHECK(H5Pset_chunk(list, rank, chunk) >= 0);
    const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    CHECK(dataset >= 0);
    H5Pclose(list);
    H5Sclose(space);
    return dataset;
}

/* One dataset, rows of it again and again, all in one event set. */
static void back_to_back(void) {
    enum { kRows = 64, kColumns = 96, kReads = 100 };
    static int rows[kRows][kColumns], found[kReads][4][kColumns];
    const hsize_t extent[] = {kRows, kColumns}, size[] = {4, kColumns};
    for (int i = 0; i < kRows * kColumns; ++i) rows[i / kColumns][i % kColumns] = 7 * i;
    const hid_t events = H5EScreate();
    const hid_t file = H5Fcreate_async("back-to-back.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT, events);
    const hid_t dataset = make_dataset(file, "rows", H5T_NATIVE_INT, 2, extent, NULL);
    CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows, events) >= 0);
    const hid_t space = H5Dget_space_async(dataset, events), memory = H5Screate_simple(2, size, NULL);
    for (int i = 0; i < kReads; ++i) {
        const hsize_t at[] = {(hsize_t)i % (kRows - 4), 0};
        H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
        CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, found[i], events) >= 0);
    }
    CHECK(wait_all(events, NULL) == 0);
    for (int i = 0; i < kReads; ++i) CHECK(memcmp(found[i], rows[i % (kRows - 4)], sizeof found[i]) == 0);
    printf("found %llx\n", (unsigned long long)sum_of(found, sizeof found));
    H5Sclose(space);
    H5Sclose(memory);
    CHECK(H5Dclose_async(dataset, events) >= 0 && H5Fclose_async(file, events) >= 0);
    CHECK(wait_all(events, NULL) == 0 && H5ESclose(events) >= 0);
}

/* Whoever closes, flushes or opens anew without an event set finds reads that have ended. */
static void closing_ends_reads(void) {
    enum { kWords = 1 << 16 };
    static uint32_t written[kWords], found[4][kWords];
    const hsize_t extent[] = {kWords};
    for (uint32_t i = 0; i < kWords; ++i) written[i] = i * 2654435761u;
    const hid_t events = H5EScreate(), file = make_file("closing.h5", H5P_DEFAULT);
    hid_t dataset = make_dataset(file, "words", H5T_NATIVE_UINT32, 1, extent, NULL);
    CHECK(H5Dwrite(dataset, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, written) >= 0);
    H5Dclose(dataset);
    H5Fclose(file);
    const hid_t again = H5Fopen("closing.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    for (int round = 0; round < 4; ++round) {
        dataset = H5Dopen_async(again, "words", H5P_DEFAULT, events);
        CHECK(H5Dread_async(dataset, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, found[round], events) >= 0);
        if (round == 0) CHECK(H5Dclose(dataset) >= 0);
        else if (round == 1) CHECK(H5Oflush(dataset) >= 0);
        else if (round == 2) CHECK(H5Fflush(again, H5F_SCOPE_LOCAL) >= 0);
        else CHECK(H5Dclose_async(dataset, events) >= 0 && H5Fclose(again) >= 0);
        CHECK(memcmp(found[round], written, sizeof written) == 0);
        if (round == 1 || round == 2) H5Dclose(dataset);
    }
    wait_all(events, NULL);
    H5ESclose(events);
}

/* A read gives what the dataset held when it was asked for, whatever is done to it before the event set is waited for.
 */
static void order(const hsize_t *chunk, const char *path) {
    enum { kRows = 200, kColumns = 300, kRounds = 40 };
    static int model[kRows][kColumns], found[kRounds][kRows][kColumns], expected[kRounds][kRows][kColumns];
    const hsize_t extent[] = {kRows, kColumns}, largest[] = {H5S_UNLIMITED, kColumns};
    const hid_t events = H5EScreate(), file = make_file(path, H5P_DEFAULT);
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(2, extent, chunk != NULL ? largest : NULL);
    if (chunk != NULL) H5Pset_chunk(list, 2, chunk);
    const hid_t dataset = H5Dcreate2(file, "model", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    for (int i = 0; i < kRows * kColumns; ++i) model[i / kColumns][i % kColumns] = i;
    CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, model, events) >= 0);
    for (int round = 0; round < kRounds; ++round) {
        memcpy(expected[round], model, sizeof model);
        CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found[round], events) >= 0);
        const hsize_t at[] = {next_random(kRows - 20), next_random(kColumns - 30)}, size[] = {20, 30};
        int block[20][30];
        for (int i = 0; i < 600; ++i) {
            block[i / 30][i % 30] = -round * 1000 - i;
            model[at[0] + (hsize_t)i / 30][at[1] + (hsize_t)i % 30] = block[i / 30][i % 30];
        }
        const hid_t memory = H5Screate_simple(2, size, NULL);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
        CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, block, events) >= 0);
        memset(block, 0xEE, sizeof block); /* the program's again */
        H5Sclose(memory);
        if (chunk != NULL && round % 8 == 3) { /* rows go, come back, and are written */
            const hsize_t fewer[] = {kRows - 50, kColumns}, from[] = {kRows - 50, 0}, rows[] = {50, kColumns};
            CHECK(H5Dset_extent_async(dataset, fewer, events) >= 0 && H5Dset_extent(dataset, extent) >= 0);
            for (int i = 0; i < 50 * kColumns; ++i) model[kRows - 50 + i / kColumns][i % kColumns] = round - i;
            const hid_t from_model = H5Screate_simple(2, extent, NULL);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, rows, NULL);
            H5Sselect_hyperslab(from_model, H5S_SELECT_SET, from, NULL, rows, NULL);
            CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, from_model, space, H5P_DEFAULT, model, events) >= 0);
            H5Sclose(from_model);
        }
    }
    CHECK(wait_all(events, NULL) == 0);
    for (int round = 0; round < kRounds; ++round)
        if (!CHECK(memcmp(found[round], expected[round], sizeof model) == 0)) break;
    H5Pclose(list);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(file);
    H5ESclose(events);
}

static void order_contiguous(void) { order(NULL, "order-contiguous.h5"); }
static void order_chunked(void) {
    const hsize_t chunk[] = {32, 50};
    order(chunk, "order-chunked.h5");
}

/* A dataset goes, and others take its place, while it is read. */
static void freed_space(void) {
    enum { kWords = 100000 };
    static int written[kWords], found[2][kWords], other[kWords];
    const hsize_t extent[] = {kWords};
    const hid_t events = H5EScreate(), file = make_file("freed.h5", H5P_DEFAULT);
    hid_t dataset = make_dataset(file, "old", H5T_NATIVE_INT, 1, extent, NULL);
    for (int i = 0; i < kWords; ++i) written[i] = 3 * i, other[i] = -5 * i;
    CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, written, events) >= 0);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found[0], events) >= 0);
    CHECK(H5Ldelete_async(file, "old", H5P_DEFAULT, events) >= 0);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found[1], events) >= 0);
    CHECK(H5Dclose_async(dataset, events) >= 0);
    dataset = make_dataset(file, "new", H5T_NATIVE_INT, 1, extent, NULL);
    CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, other, events) >= 0);
    CHECK(wait_all(events, NULL) == 0);
    CHECK(memcmp(found[0], written, sizeof written) == 0 && memcmp(found[1], written, sizeof written) == 0);
    H5Dclose(dataset);
    H5Fclose(file);
    H5ESclose(events);
}

/* One event set for each file. */
static void several_event_sets(void) {
    enum { kSets = 5, kWords = 20000, kReads = 6 };
    static int written[kSets][kWords], found[kSets][kReads][kWords / kReads];
    const hsize_t extent[] = {kWords}, size[] = {kWords / kReads};
    hid_t events[kSets], files[kSets], datasets[kSets];
    for (int set = 0; set < kSets; ++set) {
        char path[32];
        snprintf(path, sizeof path, "set-%d.h5", set);
        for (int i = 0; i < kWords; ++i) written[set][i] = set * 100000 + i;
        events[set] = H5EScreate();
        files[set] = H5Fcreate_async(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT, events[set]);
        datasets[set] = make_dataset(files[set], "words", H5T_NATIVE_INT, 1, extent, NULL);
        CHECK(H5Dwrite_async(datasets[set], H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, written[set], events[set]) >=
              0);
    }
    const hid_t memory = H5Screate_simple(1, size, NULL), space = H5Screate_simple(1, extent, NULL);
    for (int read = 0; read < kReads; ++read)
        for (int set = 0; set < kSets; ++set) {
            const hsize_t at[] = {(hsize_t)read * (kWords / kReads)};
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
            CHECK(H5Dread_async(datasets[set], H5T_NATIVE_INT, memory, space, H5P_DEFAULT, found[set][read],
                                events[set]) >= 0);
        }
    for (int set = kSets; set-- > 0;) {
        CHECK(wait_all(events[set], NULL) == 0);
        for (int read = 0; read < kReads; ++read)
            CHECK(memcmp(found[set][read], &written[set][read * (kWords / kReads)], sizeof found[set][read]) == 0);
        H5Dclose_async(datasets[set], events[set]);
        H5Fclose_async(files[set], events[set]);
        CHECK(wait_all(events[set], NULL) == 0 && H5ESclose(events[set]) >= 0);
    }
    H5Sclose(memory);
    H5Sclose(space);
}

/* A call that fails at once says so itself, and leaves the event set as it was. */
static void failing_at_once(void) {
    enum { kWords = 100 };
    int words[kWords] = {0};
    const hsize_t extent[] = {kWords}, more[] = {kWords + 1};
    const hid_t events = H5EScreate(), file = make_file("failing.h5", H5P_DEFAULT);
    const hid_t dataset = make_dataset(file, "words", H5T_NATIVE_INT, 1, extent, NULL);
    const hid_t memory = H5Screate_simple(1, more, NULL);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, memory, H5S_ALL, H5P_DEFAULT, words, events) < 0);
    CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, memory, H5S_ALL, H5P_DEFAULT, words, events) < 0);
    CHECK(H5Dopen_async(file, "nothing", H5P_DEFAULT, events) < 0);
    CHECK(H5Fopen_async("nothing.h5", H5F_ACC_RDONLY, H5P_DEFAULT, events) < 0);
    int failed = 1;
    size_t count = 99;
    CHECK(wait_all(events, &failed) == 0 && !failed);
    CHECK(H5ESget_count(events, &count) >= 0 && count == 0 && H5ESget_err_count(events, &count) >= 0 && count == 0);
    CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, words, events) >= 0);
    H5Sclose(memory);
    H5Dclose(dataset);
    H5Fclose(file);
    CHECK(H5ESclose(events) >= 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} kCases[] = {
    {"back-to-back", back_to_back},
    {"closing-ends-reads", closing_ends_reads},
    {"order-contiguous", order_contiguous},
    {"order-chunked", order_chunked},
    {"freed-space", freed_space},
    {"several-event-sets", several_event_sets},
    {"failing-at-once", failing_at_once},
    {"selections", selections},
    {"not-possible", not_possible},
    {"hanging", hanging},
    {"canceled", canceled},
    {"erring", erring},
    {"forked", forked},
};

int main(int argc, char **argv) {
    if (argc > 2) control_path = argv[2];
    for (size_t i = 0; argc > 1 && i < sizeof kCases / sizeof kCases[0]; ++i) {
        if (strcmp(argv[1], kCases[i].name) != 0) continue;
        kCases[i].run();
        printf("done %s\n", kCases[i].name);
        return exit_status;
    }
    fprintf(stderr, "async_calls CASE\n");
    return 2;
}
