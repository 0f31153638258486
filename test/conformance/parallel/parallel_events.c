/* Event sets of ranks that have one file open.
 *
 *   mpiexec -n RANKS parallel_events PART FILE [PART FILE ...]
 *
 * Parts, which come one after the other: write (makes the file), update (opens it for writing), read (each rank by
 * itself), together (collectively). Every rank prints what it sees, the same natively and with forebay. What fails in
 * an event set is printed with the call and the cause, and the rank goes on. */
#include <errno.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRows = 32, kWords = 1 << 15 }; /* 128 KiB a row */
static int rank, ranks, exit_status;
static int words[kRows][kWords];

static int checked(int good, const char *what, int line) {
    if (!good) {
        printf("rank %d: WRONG %s in line %d\n", rank, what, line);
        exit_status = 1;
    }
    return good;
}
#define CHECK(condition) checked((condition) != 0, #condition, __LINE__)

static int word_at(int row, int column, int version) { return (row * 7919 + column * 31 + version * 104729); }

static herr_t find_cause(unsigned n, const H5E_error2_t *error, void *cause) {
    (void)n;
    if (error->desc != NULL && strstr(error->desc, strerror(EIO)) != NULL) *(const char **)cause = strerror(EIO);
    return 0;
}

/* Waits for all of it. */
static int has_failed(hid_t events) {
    size_t left = 1, cleared = 0;
    hbool_t failed = 1;
    CHECK(H5ESwait(events, H5ES_WAIT_FOREVER, &left, &failed) >= 0 && (left == 0 || failed));
    if (!failed) return 0;
    H5ES_err_info_t info;
    const char *cause = "no cause";
    CHECK(H5ESget_err_info(events, 1, &info, &cleared) >= 0 && cleared == 1);
    CHECK(H5Ewalk2(info.err_stack_id, H5E_WALK_DOWNWARD, find_cause, &cause) >= 0);
    printf("rank %d: %s failed: %s\n", rank, info.api_name, cause);
    CHECK(H5ESfree_err_info(1, &info) >= 0);
    return 1;
}

static void select_row(hid_t space, int row) {
    const hsize_t start[] = {(hsize_t)row, 0}, count[] = {1, kWords};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
}

static hid_t transfer_list(int collective) {
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    return list;
}

/* Every rank its rows: each buffer is the program's own until all has ended. */
static void write_rows(hid_t dataset, int version, int collective) {
    const hsize_t size = kWords;
    const hid_t events = H5EScreate(), space = H5Dget_space(dataset), memory = H5Screate_simple(1, &size, NULL),
                list = transfer_list(collective);
    for (int row = rank; row < kRows; row += ranks) {
        for (int i = 0; i < kWords; ++i) words[row][i] = word_at(row, i, version);
        select_row(space, row);
        CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, memory, space, list, words[row], events) >= 0);
    }
    CHECK(!has_failed(events) && H5ESclose(events) >= 0);
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
}

/* All rows, beginning with another one on each rank. */
static void read_rows(hid_t dataset, int version, int collective) {
    const hsize_t size = kWords;
    const hid_t events = H5EScreate(), space = H5Dget_space(dataset), memory = H5Screate_simple(1, &size, NULL),
                list = transfer_list(collective);
    memset(words, 0, sizeof words);
    int begun = 0;
    for (int i = 0; i < kRows; ++i) {
        const int row = (i + rank * 5) % kRows;
        select_row(space, row);
        begun += H5Dread_async(dataset, H5T_NATIVE_INT, memory, space, list, words[row], events) >= 0;
    }
    const int failed = has_failed(events);
    int wrong = 0;
    for (int row = 0; row < kRows && !failed; ++row)
        for (int i = 0; i < kWords; ++i) wrong += words[row][i] != word_at(row, i, version);
    CHECK(failed || (begun == kRows && wrong == 0));
    printf("rank %d: read: %s\n", rank, failed ? "failed" : "right");
    H5Pclose(list);
    H5Sclose(memory);
    H5Sclose(space);
    if (!failed) CHECK(H5ESclose(events) >= 0);
    else H5ESclose(events);
}

static void run_part(const char *part, const char *path) {
    const int makes = strcmp(part, "write") == 0, updates = strcmp(part, "update") == 0;
    const int collective = strcmp(part, "together") == 0;
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), events = H5EScreate();
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    const hid_t file = makes ? H5Fcreate_async(path, H5F_ACC_TRUNC, H5P_DEFAULT, access, events)
                             : H5Fopen_async(path, updates ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access, events);
    if (!CHECK(file >= 0)) MPI_Abort(MPI_COMM_WORLD, 1);
    const hsize_t extent[] = {kRows, kWords};
    const hid_t space = H5Screate_simple(2, extent, NULL), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(creation, 0);
    const hid_t dataset = makes ? H5Dcreate_async(file, "words", H5T_NATIVE_INT, space, H5P_DEFAULT, creation,
                                                  H5P_DEFAULT, events)
                                : H5Dopen_async(file, "words", H5P_DEFAULT, events);
    CHECK(dataset >= 0);
    if (makes) write_rows(dataset, 1, 1);
    else read_rows(dataset, 1, collective || updates);
    if (updates) {
        write_rows(dataset, 2, 1);
        read_rows(dataset, 2, 1);
    }
    CHECK(H5Dclose_async(dataset, events) >= 0 && H5Fclose_async(file, events) >= 0);
    CHECK(!has_failed(events) && H5ESclose(events) >= 0);
    H5Sclose(space);
    H5Pclose(creation);
    H5Pclose(access);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3 || argc % 2 == 0) MPI_Abort(MPI_COMM_WORLD, 2);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int i = 1; i < argc; i += 2) run_part(argv[i], argv[i + 1]);
    MPI_Finalize();
    return exit_status;
}
