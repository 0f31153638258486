/* One file, and two groups of ranks that know nothing of each other. */
#include "parallel_cases.h"

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
void two_groups(void) {
    MPI_Comm half;
    const char *path = "two-groups.h5";
    const hid_t access = halves_of(path, &half);
    const int even = rank % 2 == 0;
    hid_t file = even ? CALL(H5Fopen(path, H5F_ACC_RDWR, access)) : H5I_INVALID_HID;
    MPI_Barrier(MPI_COMM_WORLD);
    if (!even) {
        file = H5Fopen(path, H5F_ACC_RDWR, access);
        add_fact("rank %d: while others have it open: %s\n", rank, file < 0 ? "refused" : "opened");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const int opened = file >= 0;
    if (opened) write_in(file, rank, 2);
    if (opened) CALL(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    if (!even && opened) CALL(H5Fclose(file));
    if (!even) check_in(path, access, rank - 1, 2); /* for reading only it can be opened, and was flushed */
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
void two_groups_at_once(void) {
    MPI_Comm half;
    const char *path = "two-groups-at-once.h5";
    const hid_t access = halves_of(path, &half);
    uint64_t last = 1;
    for (int round = 0; round < kRounds; ++round) {
        MPI_Barrier(MPI_COMM_WORLD);
        const hid_t file = H5Fopen(path, H5F_ACC_RDWR, access);
        add_fact("rank %d: round %d: %s\n", rank, round, file < 0 ? "refused" : "opened");
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
void two_groups_truncate(void) {
    MPI_Comm half;
    const char *path = "two-groups-truncate.h5";
    const hid_t access = halves_of(path, &half);
    const int even = rank % 2 == 0;
    const hid_t file = even ? CALL(H5Fopen(path, H5F_ACC_RDWR, access)) : H5I_INVALID_HID;
    if (even) write_in(file, rank, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!even)
        add_fact("rank %d: emptying it: %s\n", rank,
                 H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) < 0 ? "refused" : "done");
    MPI_Barrier(MPI_COMM_WORLD);
    if (even) CALL(H5Fclose(file));
    MPI_Barrier(MPI_COMM_WORLD);
    check_in(path, access, rank, even ? 2 : 1);
    check_in(path, access, ranks + rank, 1);
    H5Pclose(access);
    MPI_Comm_free(&half);
}
