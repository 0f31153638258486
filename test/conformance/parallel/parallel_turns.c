/* Collective transfers with nothing between them that ranks synchronise by. MPI-IO exchanges what all ranks ask for, so
 * each such transfer comes after those that any rank has made before. */
#include <string.h>

#include "parallel_cases.h"

enum { kPart = 100, kSteps = 200, kRanksMax = 16 };

struct opened {
    hid_t file, dataset, whole, part, list;
};

static struct opened create(const char *path) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hsize_t size = (hsize_t)(kPart * ranks), part = kPart;
    struct opened opened;
    opened.file = CALL(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    opened.whole = H5Screate_simple(1, &size, NULL);
    opened.part = H5Screate_simple(1, &part, NULL);
    opened.dataset = CALL(H5Dcreate2(opened.file, "values", H5T_NATIVE_INT, opened.whole, H5P_DEFAULT, H5P_DEFAULT,
                                     H5P_DEFAULT));
    opened.list = H5Pcreate(H5P_DATASET_XFER);
    (void)H5Pset_dxpl_mpio(opened.list, H5FD_MPIO_COLLECTIVE);
    H5Pclose(access);
    return opened;
}

static void close_all(const struct opened *opened) {
    H5Pclose(opened->list);
    H5Sclose(opened->part);
    H5Sclose(opened->whole);
    CALL(H5Dclose(opened->dataset));
    CALL(H5Fclose(opened->file));
}

static herr_t write_part(const struct opened *opened, int place, int value) {
    int values[kPart];
    const hsize_t start = (hsize_t)(place * kPart), count = kPart;
    for (int i = 0; i < kPart; ++i) values[i] = value + i;
    H5Sselect_hyperslab(opened->whole, H5S_SELECT_SET, &start, NULL, &count, NULL);
    return H5Dwrite(opened->dataset, H5T_NATIVE_INT, opened->part, opened->whole, opened->list, values);
}

/* How many values are not what was written in this step; part `p` then held `first + p`. */
static long wrong_values(const struct opened *opened, int first) {
    static int values[kPart * kRanksMax];
    memset(values, 0, sizeof values);
    if (H5Dread(opened->dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, opened->list, values) < 0) return -1;
    long wrong = 0;
    for (int p = 0; p < ranks; ++p)
        for (int i = 0; i < kPart; ++i) wrong += values[p * kPart + i] != first + p + i;
    return wrong;
}

static void add_outcome(const char *what, long wrong) {
    add_fact("rank %d: %s: %s\n", rank, what, wrong == 0 ? "right" : "WRONG DATA");
    if (wrong != 0) exit_status = kExitWrongData;
}

/* All write their own part, and each reads all of it. */
void read_in_turn(void) {
    const struct opened opened = create("read-in-turn.h5");
    long wrong = 0;
    for (int step = 0; step < kSteps; ++step) {
        wrong += write_part(&opened, rank, 1000 * step + rank) < 0;
        wrong += wrong_values(&opened, 1000 * step);
    }
    add_outcome("what all have written is read by all", wrong);
    close_all(&opened);
}

/* With each step, every rank overwrites what another one has written. */
void written_in_turn(void) {
    const struct opened opened = create("written-in-turn.h5");
    long wrong = 0;
    for (int step = 0; step < kSteps; ++step) {
        const int place = (rank + step) % ranks;
        wrong += write_part(&opened, place, 1000 * step + place) < 0;
    }
    wrong += wrong_values(&opened, 1000 * (kSteps - 1));
    add_outcome("the last write of each part counts", wrong);
    close_all(&opened);
}

/* The lists of half of the ranks do without selection I/O. One rank's reason for independent transfers holds for all.
 */
void differing_in_turn(void) {
    const struct opened opened = create("differing-in-turn.h5");
    if (rank % 2 == 1) H5Pset_selection_io(opened.list, H5D_SELECTION_IO_MODE_OFF);
    long wrong = 0;
    for (int step = 0; step < 20; ++step) {
        wrong += write_part(&opened, rank, 1000 * step + rank) < 0;
        MPI_Barrier(MPI_COMM_WORLD);
        wrong += wrong_values(&opened, 1000 * step);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    add_outcome("what ranks write by different lists", wrong);
    close_all(&opened);
}
