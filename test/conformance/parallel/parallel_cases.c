/* Small MPI programs that use HDF5 in ways which are unusual, or end badly.
 *
 *   mpiexec -n RANKS parallel_cases CASE [CASE ...]
 *   parallel_cases serial | check FILE
 *
 * Every rank prints one line per fact, "rank R: what: ok", ": failed" or ": WRONG DATA", in one piece at the end of a
 * case, and ends with 0, with 1 if a call failed, with 3 if data was wrong. The same lines must come natively and with
 * forebay. Several cases run one after the other, each in a folder of its own name; the facts of each are between the
 * lines "rank R: case CASE" and "rank R: ends with STATUS".
 * The contents of a file follow from its name, its dataset and the position, so that anyone can check them. */
#include "parallel_cases.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Some programs forget to close a file and make it anew. The old handle has nothing left to write then. */
static void anew_while_open(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    hid_t old_rows = H5I_INVALID_HID, old_file = H5I_INVALID_HID;
    for (uint64_t round = 1; round <= 2; ++round) {
        const hid_t file = CALL(H5Fcreate("anew-while-open.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
        const hid_t dataset = CALL(create_rows(file, "rows", 2 * ranks));
        CALL(write_row(dataset, rank, round, 1));
        CALL(write_row(dataset, ranks + rank, 2 * round, 0));
        CALL(H5Fflush(file, H5F_SCOPE_GLOBAL));
        MPI_Barrier(MPI_COMM_WORLD);
        check_row(dataset, (rank + 1) % ranks, round, 0);
        if (round == 1) {
            old_file = file;
            old_rows = dataset;
            continue;
        }
        CALL(H5Dclose(old_rows));
        CALL(H5Fclose(old_file));
        CALL(write_row(dataset, ranks + rank, 5, 1));
        CALL(H5Dclose(dataset));
        CALL(H5Fclose(file));
    }
    H5Pclose(access);
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

/* What no library may do: asks MPI from a thread that the program did not promise to it. */
static void *ask_mpi(void *size) {
    MPI_Comm_size(MPI_COMM_WORLD, size);
    return NULL;
}
static void asked_by_a_thread(void) {
    pthread_t thread;
    int size = 0;
    if (pthread_create(&thread, NULL, ask_mpi, &size) != 0 || pthread_join(thread, NULL) != 0 || size != ranks)
        exit_status = kExitFailure;
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
    {"plain", plain},
    {"duplicated", duplicated},
    {"split", split},
    {"reordered", reordered},
    {"some-ranks", some_ranks},
    {"each-alone", each_alone},
    {"freed-early", freed_early},
    {"anew-while-open", anew_while_open},
    {"twice-through-one", twice_through_one},
    {"twice-through-two", twice_through_two},
    {"twice-through-reordered", twice_through_reordered},
    {"many-files", many_files},
    {"serial-beside-shared", serial_beside_shared},
    {"serial-then-shared", serial_then_shared},
    {"atomic", atomic},
    {"read-in-turn", read_in_turn},
    {"written-in-turn", written_in_turn},
    {"differing-in-turn", differing_in_turn},
    {"refused-opens", refused_opens},
    {"forgotten", forgotten},
    {"killed", killed},
    {"killed-before-close", killed_before_close},
    {"prepared", prepared},
    {"overwritten", overwritten},
    {"overwritten-and-read", overwritten_and_read},
    {"overwritten-or-given-up", overwritten_or_given_up},
    {"aborted", aborted},
    {"asked-by-a-thread", asked_by_a_thread},
    {"two-groups", two_groups},
    {"two-groups-at-once", two_groups_at_once},
    {"two-groups-truncate", two_groups_truncate},
};

static void (*case_named(const char *name))(void) {
    for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i)
        if (strcmp(name, kCases[i].name) == 0) return kCases[i].run;
    fprintf(stderr, "parallel_cases: unknown case '%s'\n", name);
    exit(kExitUsage);
}

/* One of several cases, in its folder. No rank begins before the others have ended the case before. */
static int run_in_folder(const char *name, void (*run)(void)) {
    const int made = rank != 0 || mkdir(name, 0755) == 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!made || chdir(name) != 0) MPI_Abort(MPI_COMM_WORLD, kExitUsage);
    exit_status = 0;
    add_fact("rank %d: case %s\n", rank, name);
    run();
    add_fact("rank %d: ends with %d\n", rank, exit_status);
    print_facts();
    if (chdir("..") != 0) MPI_Abort(MPI_COMM_WORLD, kExitUsage);
    return exit_status;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "serial") == 0) { /* a program without MPI, of which mpiexec starts several */
        char path[32];
        const char *place = getenv("PMI_RANK"); /* MPICH's launcher; that of Open MPI: */
        if (place == NULL) place = getenv("OMPI_COMM_WORLD_RANK");
        rank = place == NULL ? 0 : atoi(place);
        snprintf(path, sizeof path, "serial-%d.h5", rank);
        serial_file(path);
        print_facts();
        return exit_status;
    }
    if (strcmp(name, "check") == 0 && argc == 3) {
        check(argv[2]);
        print_facts();
        return exit_status;
    }
    for (int i = 1; i < argc || i == 1; ++i) (void)case_named(i < argc ? argv[i] : "");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc == 2) {
        case_named(name)();
        print_facts();
        MPI_Finalize();
        return exit_status;
    }
    int worst = 0;
    for (int i = 1; i < argc; ++i) {
        const int status = run_in_folder(argv[i], case_named(argv[i]));
        if (status > worst) worst = status;
    }
    MPI_Finalize();
    return worst;
}
