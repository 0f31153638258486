/* Small MPI programs that use HDF5 in ways which are unusual, or end badly.
 *
 *   mpiexec -n RANKS parallel_cases CASE
 *   parallel_cases serial | check FILE
 *
 * Every rank prints one line per fact, "rank R: what: ok", ": failed" or ": WRONG DATA", in one piece at its end, and
 * ends with 0, with 1 if a call failed, with 3 if data was wrong. The same lines must come natively and with forebay.
 * The contents of a file follow from its name, its dataset and the position, so that anyone can check them. */
#include <hdf5.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kExitFailure = 1, kExitWrongData = 3, kExitUsage = 2 };
enum { kRowWords = 256 * 1024 };   /* 2 MiB per rank and dataset */

static int rank, ranks, exit_status;
static char told[16384];
static size_t told_bytes;

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(told + told_bytes, sizeof told - told_bytes, format, arguments);
    va_end(arguments);
    if (bytes > 0) told_bytes += (size_t)bytes;
    if (told_bytes >= sizeof told) told_bytes = sizeof told - 1;
}

static void say(void) {
    if (fwrite(told, 1, told_bytes, stdout) != told_bytes || fflush(stdout) != 0) exit_status = kExitFailure;
    told_bytes = 0;
}

/* The result of a call goes through; a failure is told. */
static int64_t checked(const char *what, int64_t result) {
    tell("rank %d: %s: %s\n", rank, what, result < 0 ? "failed" : "ok");
    if (result < 0 && exit_status == 0) exit_status = kExitFailure;
    return result;
}
#define CALL(call) checked(#call, (int64_t)(call))

static uint64_t word_at(uint64_t row, uint64_t column, uint64_t version) {
    uint64_t x = (version << 56) + (row << 32) + column + 0x9E3779B97F4A7C15u;   /* the mixing step of SplitMix64 */
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static hid_t access_through(MPI_Comm communicator) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (H5Pset_fapl_mpio(list, communicator, MPI_INFO_NULL) < 0) tell("rank %d: no mpio list\n", rank);
    return list;
}

static hid_t transfer_list(int collective) {
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    (void)H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    return list;
}

/* A dataset with `rows` rows. */
static hid_t create_rows(hid_t file, const char *name, int rows) {
    const hsize_t extents[2] = {(hsize_t)rows, kRowWords};
    const hid_t space = H5Screate_simple(2, extents, NULL);
    const hid_t dataset = H5Dcreate2(file, name, H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Sclose(space);
    return dataset;
}

static herr_t move_row(hid_t dataset, int row, uint64_t *words, int collective, int writing) {
    const hsize_t start[2] = {(hsize_t)row, 0}, count[2] = {1, kRowWords}, words_count = kRowWords;
    const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &words_count, NULL), list = transfer_list(collective);
    herr_t done = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    if (done >= 0)
        done = writing ? H5Dwrite(dataset, H5T_NATIVE_UINT64, memory, space, list, words)
                       : H5Dread(dataset, H5T_NATIVE_UINT64, memory, space, list, words);
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
    return done;
}

static herr_t write_row(hid_t dataset, int row, uint64_t version, int collective) {
    uint64_t *words = malloc(kRowWords * sizeof *words);
    if (words == NULL) return -1;
    for (uint64_t i = 0; i < kRowWords; ++i) words[i] = word_at((uint64_t)row, i, version);
    const herr_t done = move_row(dataset, row, words, collective, 1);
    free(words);
    return done;
}

static void check_row(hid_t dataset, int row, uint64_t version, int collective) {
    uint64_t *words = calloc(kRowWords, sizeof *words);
    if (words == NULL) return;
    if (move_row(dataset, row, words, collective, 0) < 0) {
        (void)checked("read", -1);
    } else {
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < kRowWords; ++i) wrong += words[i] != word_at((uint64_t)row, i, version);
        tell("rank %d: row %d, version %u: %s\n", rank, row, (unsigned)version, wrong == 0 ? "right" : "WRONG DATA");
        if (wrong > 0) {
            fprintf(stderr, "rank %d, row %d: %llu of %d words are not of version %u\n", rank, row, (unsigned long long)wrong, kRowWords, (unsigned)version);
            exit_status = kExitWrongData;
        }
    }
    free(words);
}

/* Creates a file through `communicator`, one row per rank of it, and looks at every row. */
static void write_and_check(MPI_Comm communicator, const char *path) {
    int place, size;
    MPI_Comm_rank(communicator, &place);
    MPI_Comm_size(communicator, &size);
    const hid_t access = access_through(communicator);
    hid_t file = CALL(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    if (file >= 0) {
        const hid_t dataset = CALL(create_rows(file, "rows", size));
        CALL(write_row(dataset, place, 1, 1));
        CALL(write_row(dataset, place, 2, 0));
        MPI_Barrier(communicator);
        check_row(dataset, (place + 1) % size, 2, 0);
        CALL(H5Dclose(dataset));
        CALL(H5Fclose(file));
    }
    MPI_Barrier(communicator);
    file = CALL(H5Fopen(path, H5F_ACC_RDONLY, access));
    if (file >= 0) {
        const hid_t dataset = CALL(H5Dopen2(file, "rows", H5P_DEFAULT));
        for (int row = 0; row < size && dataset >= 0; ++row) check_row(dataset, row, 2, 1);
        CALL(H5Dclose(dataset));
        CALL(H5Fclose(file));
    }
    H5Pclose(access);
}

static void plain(void) { write_and_check(MPI_COMM_WORLD, "plain.h5"); }

static void duplicated(void) {
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    write_and_check(twin, "duplicated.h5");
    MPI_Comm_free(&twin);
}

/* Halves of the ranks, each with a file of its own, at the same time. */
static void split(void) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    write_and_check(half, rank % 2 ? "odd.h5" : "even.h5");
    MPI_Comm_free(&half);
}

static void reordered(void) {
    MPI_Comm backwards;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
    write_and_check(backwards, "reordered.h5");
    MPI_Comm_free(&backwards);
}

/* All but the first rank share a file that rank 0 knows nothing of. */
static void some_ranks(void) {
    MPI_Comm others;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &others);
    if (others == MPI_COMM_NULL) return;
    write_and_check(others, "some-ranks.h5");
    MPI_Comm_free(&others);
}

static void each_alone(void) {
    char path[32];
    snprintf(path, sizeof path, "alone-%d.h5", rank);
    write_and_check(MPI_COMM_SELF, path);
}

/* The communicator of the access list is the caller's to free once the list has it. */
static void freed_early(void) {
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    const hid_t access = access_through(twin);
    MPI_Comm_free(&twin);
    const hid_t file = CALL(H5Fcreate("freed-early.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    H5Pclose(access);
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 1, 1));
    MPI_Barrier(MPI_COMM_WORLD);
    check_row(dataset, (rank + 1) % ranks, 1, 0);
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
}

/* One file, opened twice in the same process: through the same communicator, or through another one of the same ranks.
 * HDF5 keeps two unrelated pictures of it, so the second handle only moves raw data that the first has allocated. */
static void opened_twice(MPI_Comm second_communicator, const char *path) {
    const hid_t access = access_through(MPI_COMM_WORLD), second_access = access_through(second_communicator);
    const hid_t first = CALL(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(first, "rows", 2 * ranks));
    CALL(write_row(dataset, rank, 1, 1));
    CALL(write_row(dataset, ranks + rank, 1, 1));
    CALL(H5Fflush(first, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    const hid_t second = CALL(H5Fopen(path, H5F_ACC_RDWR, second_access));
    if (second >= 0) {
        const hid_t again = CALL(H5Dopen2(second, "rows", H5P_DEFAULT));
        check_row(again, (rank + 1) % ranks, 1, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        CALL(write_row(dataset, rank, 2, 0));
        CALL(write_row(again, ranks + rank, 3, 1));
        MPI_Barrier(MPI_COMM_WORLD);
        check_row(again, (rank + 1) % ranks, 2, 0);
        check_row(dataset, ranks + (rank + 1) % ranks, 3, 0);
        CALL(H5Dclose(again));
        CALL(H5Fclose(second));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(write_row(dataset, rank, 4, 1));
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(first));
    MPI_Barrier(MPI_COMM_WORLD);
    const hid_t last = CALL(H5Fopen(path, H5F_ACC_RDONLY, access));
    const hid_t rows = CALL(H5Dopen2(last, "rows", H5P_DEFAULT));
    check_row(rows, (rank + 1) % ranks, 4, 0);
    check_row(rows, ranks + (rank + 1) % ranks, second >= 0 ? 3 : 1, 0);
    CALL(H5Dclose(rows));
    CALL(H5Fclose(last));
    H5Pclose(second_access);
    H5Pclose(access);
}

static void twice_through_one(void) { opened_twice(MPI_COMM_WORLD, "twice-through-one.h5"); }

static void twice_through_two(void) {
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    opened_twice(twin, "twice-through-two.h5");
    MPI_Comm_free(&twin);
}

static void twice_through_reordered(void) {
    MPI_Comm backwards;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
    opened_twice(backwards, "twice-through-reordered.h5");
    MPI_Comm_free(&backwards);
}

/* ---- one file, and two groups of ranks that know nothing of each other ---- */

enum { kRounds = 8 };

/* Made by all: a row for each rank, and a second one. */
static hid_t halves_of(const char *path, MPI_Comm *half) {
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, half);
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", 2 * ranks));
    CALL(write_row(dataset, rank, 1, 1));
    CALL(write_row(dataset, ranks + rank, 1, 1));
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    H5Pclose(access);
    MPI_Barrier(MPI_COMM_WORLD);
    return access_through(*half);
}

static void write_in(hid_t file, int row, uint64_t version) {
    const hid_t dataset = CALL(H5Dopen2(file, "rows", H5P_DEFAULT));
    CALL(write_row(dataset, row, version, 1));
    CALL(H5Dclose(dataset));
}

static void check_in(const char *path, hid_t access, int row, uint64_t version) {
    const hid_t file = CALL(H5Fopen(path, H5F_ACC_RDONLY, access));
    const hid_t dataset = CALL(H5Dopen2(file, "rows", H5P_DEFAULT));
    check_row(dataset, row, version, 0);
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
}

/* Ranks of even and of odd number open one file for writing, one group after the other. */
static void two_groups(void) {
    MPI_Comm half;
    const char *path = "two-groups.h5";
    const hid_t access = halves_of(path, &half);
    const int even = rank % 2 == 0;
    hid_t file = even ? CALL(H5Fopen(path, H5F_ACC_RDWR, access)) : H5I_INVALID_HID;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!even) {
        file = H5Fopen(path, H5F_ACC_RDWR, access);
        tell("rank %d: while others have it open: %s\n", rank, file < 0 ? "refused" : "opened");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const int opened = file >= 0;
    if (opened) write_in(file, rank, 2);
    if (opened) CALL(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    if (!even && opened) CALL(H5Fclose(file));
    if (!even) check_in(path, access, rank - 1, 2);   /* for reading only it can be opened, and was flushed */
    MPI_Barrier(MPI_COMM_WORLD);
    if (even) CALL(H5Fclose(file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (!even) {
        file = CALL(H5Fopen(path, H5F_ACC_RDWR, access));
        if (!opened) write_in(file, rank, 2);
        write_in(file, ranks + rank, 3);
        CALL(H5Fclose(file));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check_in(path, access, (rank + 1) % ranks, 2);
    check_in(path, access, ranks + rank, even ? 1 : 3);
    H5Pclose(access);
    MPI_Comm_free(&half);
}

/* Both groups open it at the same instant, again and again. */
static void two_groups_at_once(void) {
    MPI_Comm half;
    const char *path = "two-groups-at-once.h5";
    const hid_t access = halves_of(path, &half);
    uint64_t last = 1;
    for (int round = 0; round < kRounds; ++round) {
        MPI_Barrier(MPI_COMM_WORLD);
        const hid_t file = H5Fopen(path, H5F_ACC_RDWR, access);
        tell("rank %d: round %d: %s\n", rank, round, file < 0 ? "refused" : "opened");
        MPI_Barrier(MPI_COMM_WORLD);
        if (file < 0) continue;
        last = (uint64_t)round + 2;
        write_in(file, rank, last);
        CALL(H5Fclose(file));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check_in(path, access, rank, last);
    H5Pclose(access);
    MPI_Comm_free(&half);
}

/* Not for native runs: the second group would empty what the first one has open. */
static void two_groups_truncate(void) {
    MPI_Comm half;
    const char *path = "two-groups-truncate.h5";
    const hid_t access = halves_of(path, &half);
    const int even = rank % 2 == 0;
    const hid_t file = even ? CALL(H5Fopen(path, H5F_ACC_RDWR, access)) : H5I_INVALID_HID;
    if (even) write_in(file, rank, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!even) tell("rank %d: emptying it: %s\n", rank, H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) < 0 ? "refused" : "done");
    MPI_Barrier(MPI_COMM_WORLD);
    if (even) CALL(H5Fclose(file));
    MPI_Barrier(MPI_COMM_WORLD);
    check_in(path, access, rank, even ? 2 : 1);
    check_in(path, access, ranks + rank, 1);
    H5Pclose(access);
    MPI_Comm_free(&half);
}

/* Several files at once, closed in another order than they were opened. */
static void many_files(void) {
    enum { kFiles = 5 };
    hid_t files[kFiles], datasets[kFiles];
    const hid_t access = access_through(MPI_COMM_WORLD);
    for (int i = 0; i < kFiles; ++i) {
        char path[32];
        snprintf(path, sizeof path, "many-%d.h5", i);
        files[i] = CALL(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
        datasets[i] = CALL(create_rows(files[i], "rows", ranks));
    }
    for (int i = 0; i < kFiles; ++i) CALL(write_row(datasets[i], rank, (uint64_t)i, i % 2));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < kFiles; ++i) {
        const int at = (i * 2 + 1) % kFiles;
        check_row(datasets[at], (rank + 1) % ranks, (uint64_t)at, at % 2);
        CALL(H5Dclose(datasets[at]));
        CALL(H5Fclose(files[at]));
    }
    H5Pclose(access);
}

/* Writes and checks a file of the rank's own through HDF5's default driver. */
static void serial_file(const char *path) {
    const hid_t file = CALL(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    const hid_t dataset = CALL(create_rows(file, "rows", 2));
    CALL(write_row(dataset, 0, 1, 0));
    CALL(write_row(dataset, 1, 2, 0));
    check_row(dataset, 0, 1, 0);
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
}

/* A shared file stays open while every rank writes one of its own with the default driver. */
static void serial_beside_shared(void) {
    char path[32];
    snprintf(path, sizeof path, "serial-%d.h5", rank);
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("shared.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 7, 1));
    serial_file(path);
    MPI_Barrier(MPI_COMM_WORLD);
    check_row(dataset, (rank + 1) % ranks, 7, 1);
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    H5Pclose(access);
}

/* First written by one rank alone, then opened by all, then read by one alone. */
static void serial_then_shared(void) {
    const char *path = "serial-then-shared.h5";
    if (rank == 0) serial_file(path);
    MPI_Barrier(MPI_COMM_WORLD);
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fopen(path, H5F_ACC_RDWR, access));
    const hid_t dataset = CALL(create_rows(file, "more", ranks));
    CALL(write_row(dataset, rank, 5, 0));
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    H5Pclose(access);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank + 1 < ranks) return;
    const hid_t again = CALL(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    const hid_t rows = CALL(H5Dopen2(again, "rows", H5P_DEFAULT)), more = CALL(H5Dopen2(again, "more", H5P_DEFAULT));
    check_row(rows, 1, 2, 0);
    for (int row = 0; row < ranks; ++row) check_row(more, row, 5, 0);
    CALL(H5Dclose(rows));
    CALL(H5Dclose(more));
    CALL(H5Fclose(again));
}

/* Each rank sees at once what another wrote: no flush, only a barrier. */
static void atomic(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("atomic.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 1, 0));
    CALL(H5Fset_mpi_atomicity(file, 1));
    for (uint64_t version = 2; version < 5; ++version) {
        CALL(write_row(dataset, rank, version, (int)(version % 2)));
        MPI_Barrier(MPI_COMM_WORLD);
        check_row(dataset, (rank + 1) % ranks, version, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    H5Pclose(access);
}

/* Opens that fail on every rank, and leave everything in order. */
static void refused_opens(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    H5E_auto2_t print;
    void *data;
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    CALL(H5Fopen("is-not-there.h5", H5F_ACC_RDWR, access));
    CALL(H5Fcreate("no-such-folder/file.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t file = CALL(H5Fcreate("exists.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    CALL(H5Fclose(file));
    MPI_Barrier(MPI_COMM_WORLD);
    CALL(H5Fcreate("exists.h5", H5F_ACC_EXCL, H5P_DEFAULT, access));
    CALL(H5Fis_accessible("exists.h5", access));
    CALL(H5Fdelete("exists.h5", access));
    MPI_Barrier(MPI_COMM_WORLD);
    tell("rank %d: the deleted file %s\n", rank, access < 0 || H5Fopen("exists.h5", H5F_ACC_RDONLY, access) < 0 ? "is gone" : "is still there");
    H5Eset_auto2(H5E_DEFAULT, print, data);
    H5Pclose(access);
    exit_status = 0;   /* failing was right */
}

/* A file that is still open when MPI ends: HDF5 closes it then. */
static void forgotten(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("forgotten.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 2, 1));
}

/* The last rank is killed while the others write on. MPI ends them; how is not ours to say. */
static void killed(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("killed.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 1, 1));
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) exit(kExitFailure);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint64_t version = 2; version < 100000; ++version) {
        if (write_row(dataset, rank, version, 0) < 0) exit(kExitFailure);
        if (rank + 1 == ranks && version == 5) (void)raise(SIGKILL);
    }
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    H5Pclose(access);
}

/* The last rank is killed while the others wait for it in a collective close. */
static void killed_before_close(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("killed-before-close.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 1, 1));
    if (rank + 1 == ranks) (void)raise(SIGKILL);
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    H5Pclose(access);
}

/* A flush or close has to end within this time, well or not. */
enum { kSecondsMax = 10 };
static void timed(const char *what, herr_t (*call)(hid_t), hid_t file) {
    const double begin = MPI_Wtime();
    (void)checked(what, call(file));
    const double seconds = MPI_Wtime() - begin;
    if (seconds > kSecondsMax) tell("rank %d: %s: took %.1f s\n", rank, what, seconds);
}

static herr_t flush_file(hid_t file) { return H5Fflush(file, H5F_SCOPE_GLOBAL); }

static void prepared(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("prepared.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 1, 1));
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    H5Pclose(access);
}

/* Overwrites what `prepared` has made and flushes it, which may fail. Goes on then, or gives up as many programs do. */
enum After { kClose, kReadAndClose, kGiveUp };
static void overwrite(enum After after) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fopen("prepared.h5", H5F_ACC_RDWR, access));
    const hid_t dataset = CALL(H5Dopen2(file, "rows", H5P_DEFAULT));
    MPI_Barrier(MPI_COMM_WORLD);   /* nobody reads any more when somebody writes */
    CALL(write_row(dataset, rank, 2, 0));
    timed("flush", flush_file, file);
    if (after == kReadAndClose) check_row(dataset, rank, 2, 0);
    if (after == kGiveUp) {
        say();
        MPI_Barrier(MPI_COMM_WORLD);
        _exit(0);   /* not by MPI_Abort: the launcher would lose what was said, and not wait for the end of the ranks */
    }
    CALL(H5Dclose(dataset));
    timed("close", H5Fclose, file);
    H5Pclose(access);
}

static void overwritten(void) { overwrite(kClose); }
static void overwritten_and_read(void) { overwrite(kReadAndClose); }
static void overwritten_or_given_up(void) { overwrite(kGiveUp); }

/* Aborts with staged bytes, as programs do that meet an error of their own. */
static void aborted(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("aborted.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 1, 1));
    if (rank == 0) MPI_Abort(MPI_COMM_WORLD, 9);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What no library may do: asks MPI from a thread that the program did not promise to it. */
static void *ask_mpi(void *size) {
    MPI_Comm_size(MPI_COMM_WORLD, size);
    return NULL;
}
static void asked_by_a_thread(void) {
    pthread_t thread;
    int size = 0;
    if (pthread_create(&thread, NULL, ask_mpi, &size) != 0 || pthread_join(thread, NULL) != 0 || size != ranks) exit_status = kExitFailure;
}

/* Without MPI: checks that every row of a file's dataset "rows" is of one version. */
static void check(const char *path) {
    const hid_t file = CALL(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    const hid_t dataset = CALL(H5Dopen2(file, "rows", H5P_DEFAULT)), space = H5Dget_space(dataset);
    hsize_t extents[2] = {0, 0};
    H5Sget_simple_extent_dims(space, extents, NULL);
    for (hsize_t row = 0; row < extents[0]; ++row) check_row(dataset, (int)row, 2, 0);
    H5Sclose(space);
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
}

static const struct {
    const char *name;
    void (*run)(void);
} kCases[] = {
    {"plain", plain}, {"duplicated", duplicated}, {"split", split}, {"reordered", reordered}, {"some-ranks", some_ranks},
    {"each-alone", each_alone}, {"freed-early", freed_early}, {"twice-through-one", twice_through_one},
    {"twice-through-two", twice_through_two}, {"twice-through-reordered", twice_through_reordered}, {"many-files", many_files},
    {"serial-beside-shared", serial_beside_shared}, {"serial-then-shared", serial_then_shared}, {"atomic", atomic},
    {"refused-opens", refused_opens}, {"forgotten", forgotten}, {"killed", killed},
    {"killed-before-close", killed_before_close}, {"prepared", prepared}, {"overwritten", overwritten},
    {"overwritten-and-read", overwritten_and_read}, {"overwritten-or-given-up", overwritten_or_given_up}, {"aborted", aborted},
    {"asked-by-a-thread", asked_by_a_thread},
    {"two-groups", two_groups}, {"two-groups-at-once", two_groups_at_once}, {"two-groups-truncate", two_groups_truncate},
};

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "serial") == 0) {   /* a program without MPI, of which mpiexec starts several */
        char path[32];
        const char *place = getenv("PMI_RANK");   /* MPICH's launcher; that of Open MPI: */
        if (place == NULL) place = getenv("OMPI_COMM_WORLD_RANK");
        rank = place == NULL ? 0 : atoi(place);
        snprintf(path, sizeof path, "serial-%d.h5", rank);
        serial_file(path);
        say();
        return exit_status;
    }
    if (strcmp(name, "check") == 0 && argc == 3) {
        check(argv[2]);
        say();
        return exit_status;
    }
    for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
        if (strcmp(name, kCases[i].name) != 0) continue;
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        kCases[i].run();
        say();
        MPI_Finalize();
        return exit_status;
    }
    fprintf(stderr, "parallel_cases: unknown case '%s'\n", name);
    return kExitUsage;
}
