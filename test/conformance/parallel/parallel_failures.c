/* Calls that fail, and programs that end badly. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "parallel_cases.h"

/* Opens that fail on every rank, and leave everything in order. */
void refused_opens(void) {
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
    add_fact("rank %d: the deleted file %s\n", rank,
             access < 0 || H5Fopen("exists.h5", H5F_ACC_RDONLY, access) < 0 ? "is gone" : "is still there");
    H5Eset_auto2(H5E_DEFAULT, print, data);
    H5Pclose(access);
    exit_status = 0; /* failing was right */
}

/* A file that is still open when MPI ends: HDF5 closes it then. */
void forgotten(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("forgotten.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 2, 1));
}

/* The last rank is killed while the others write on. MPI ends them; how is not ours to say. */
void killed(void) {
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
void killed_before_close(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("killed-before-close.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 1, 1));
    if (rank + 1 == ranks) (void)raise(SIGKILL);
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    H5Pclose(access);
}

void prepared(void) {
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
    MPI_Barrier(MPI_COMM_WORLD); /* nobody reads any more when somebody writes */
    CALL(write_row(dataset, rank, 2, 0));
    (void)checked("flush", H5Fflush(file, H5F_SCOPE_GLOBAL));
    if (after == kReadAndClose) check_row(dataset, rank, 2, 0);
    if (after == kGiveUp) {
        print_facts();
        MPI_Barrier(MPI_COMM_WORLD);
        _exit(0); /* not by MPI_Abort: the launcher would lose what was said, and not wait for the end of the ranks */
    }
    CALL(H5Dclose(dataset));
    (void)checked("close", H5Fclose(file));
    H5Pclose(access);
}

void overwritten(void) { overwrite(kClose); }
void overwritten_and_read(void) { overwrite(kReadAndClose); }
void overwritten_or_given_up(void) { overwrite(kGiveUp); }

/* Aborts with staged bytes, as programs do that meet an error of their own. */
void aborted(void) {
    const hid_t access = access_through(MPI_COMM_WORLD);
    const hid_t file = CALL(H5Fcreate("aborted.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    const hid_t dataset = CALL(create_rows(file, "rows", ranks));
    CALL(write_row(dataset, rank, 1, 1));
    if (rank == 0) MPI_Abort(MPI_COMM_WORLD, 9);
    MPI_Barrier(MPI_COMM_WORLD);
}
