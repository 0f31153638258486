/* A program that changes one file from epoch to epoch, each ended by a flush, and then kills itself, or closes the
 * file.
 *
 *   crash_program FILE earliest|latest EPOCHS 0|1|close [mpi [read|write]]
 *
 * In every epoch all there was is overwritten, datasets come and go so that space is freed and used again, and the file
 * grows. After each flush one line "flushed N" is written to standard output. After the last one, with 1, as much
 * is done again without a flush. With `close` too, and then the file is closed, the line "closed" is written, and the
 * program ends as any other does, with status 0. With `mpi` the ranks of the launch do it together, each in rows of its
 * own. What the file holds after a flush is the same in every run. With `read` or `write` it does none of this: it
 * opens the file that is there, looks whether it holds what EPOCHS flushes have left, then with `write` changes it once
 * more, closes it, and each rank writes "found" to standard output.
 */
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef CRASH_WITH_MPI
#include <mpi.h>
#endif

enum { kRows = 8, kColumns = 6000 };

static int rank = 0, ranks = 1, with_mpi = 0;

static void meet(void) {
#ifdef CRASH_WITH_MPI
    if (with_mpi) MPI_Barrier(MPI_COMM_WORLD);
#endif
}

static hid_t checked(hid_t id, const char* call) {
    if (id >= 0) return id;
    fprintf(stderr, "%s failed\n", call);
    _exit(3); /* HDF5 writes no more at the end */
}
#define CALL(call) checked((hid_t)(call), #call)

/* Rows that belong to this rank, filled with what tells the epoch and the place. */
static void write_rows(hid_t dataset, int epoch) {
    static int values[kColumns];
    const hid_t space = CALL(H5Dget_space(dataset));
    for (int row = rank; row < kRows; row += ranks) {
        const hsize_t start[2] = {(hsize_t)row, 0}, count[2] = {1, kColumns}, length[1] = {kColumns};
        for (int i = 0; i < kColumns; ++i) values[i] = epoch * 1000003 + row * 1009 + i;
        const hid_t memory = CALL(H5Screate_simple(1, length, NULL));
        CALL(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
        CALL(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values));
        H5Sclose(memory);
    }
    H5Sclose(space);
}

static void create(hid_t file, const char* name, int chunked, int epoch) {
    const hsize_t size[2] = {kRows, kColumns}, chunk[2] = {3, 1500};
    const hid_t space = CALL(H5Screate_simple(2, size, NULL)), list = CALL(H5Pcreate(H5P_DATASET_CREATE));
    if (chunked) CALL(H5Pset_chunk(list, 2, chunk));
    CALL(H5Pset_obj_track_times(list, 0));
    const hid_t dataset = CALL(H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT));
    meet(); /* fill values are written by some ranks for others */
    write_rows(dataset, epoch);
    CALL(H5Dclose(dataset));
    H5Pclose(list);
    H5Sclose(space);
}

static void change(hid_t file, int epoch) {
    char name[32];
    for (int earlier = 0; earlier < epoch; ++earlier) {
        snprintf(name, sizeof name, "epoch %d", earlier);
        if (earlier + 2 == epoch) {
            meet();
            CALL(H5Ldelete(file, name, H5P_DEFAULT));
        } else if (earlier + 2 > epoch || earlier % 2 == 0) {
            if (CALL(H5Lexists(file, name, H5P_DEFAULT)) == 0) continue;
            const hid_t dataset = CALL(H5Dopen2(file, name, H5P_DEFAULT));
            write_rows(dataset, epoch);
            CALL(H5Dclose(dataset));
        }
    }
    meet();
    snprintf(name, sizeof name, "epoch %d", epoch);
    create(file, name, epoch % 2, epoch);
}

/* Every row of the newest dataset is as the last flush has left it. */
static int holds_epoch(hid_t dataset, int epoch) {
    static int values[kRows][kColumns];
    CALL(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int row = 0; row < kRows; ++row)
        for (int i = 0; i < kColumns; ++i)
            if (values[row][i] != epoch * 1000003 + row * 1009 + i) return 0;
    return 1;
}

static int look_again(const char* path, hid_t access, int epochs, int writes) {
    char name[32];
    const hid_t file = CALL(H5Fopen(path, writes ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access));
    snprintf(name, sizeof name, "epoch %d", epochs - 1);
    const hid_t dataset = CALL(H5Dopen2(file, name, H5P_DEFAULT));
    if (!holds_epoch(dataset, epochs - 1)) {
        fprintf(stderr, "%s is not as it was flushed\n", name);
        return 5;
    }
    meet();
    if (writes) write_rows(dataset, epochs);
    CALL(H5Dclose(dataset));
    CALL(H5Fclose(file));
    return write(STDOUT_FILENO, "found\n", 6) == 6 ? 0 : 4;
}

/* One line of standard output at once, so that it is out when the program is killed. */
static void tell(const char* line) {
    if (rank == 0 && write(STDOUT_FILENO, line, strlen(line)) != (ssize_t)strlen(line)) exit(4);
}

int main(int count, char** arguments) {
    if (count < 5) return 2;
    const int epochs = atoi(arguments[3]), closes = strcmp(arguments[4], "close") == 0;
    const int tail = closes || atoi(arguments[4]);
    const hid_t access = CALL(H5Pcreate(H5P_FILE_ACCESS)), list = CALL(H5Pcreate(H5P_FILE_CREATE));
    with_mpi = count > 5;
    if (with_mpi) {
#ifdef CRASH_WITH_MPI
        MPI_Init(&count, &arguments);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        CALL(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
#else
        return 2;
#endif
    }
    if (count > 6) {
        const int found = look_again(arguments[1], access, epochs, strcmp(arguments[6], "write") == 0);
        H5Pclose(access);
#ifdef CRASH_WITH_MPI
        MPI_Finalize();
#endif
        return found;
    }
    if (strcmp(arguments[2], "latest") == 0) CALL(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    CALL(H5Pset_obj_track_times(list, 0));
    const hid_t file = CALL(H5Fcreate(arguments[1], H5F_ACC_TRUNC, list, access));
    for (int epoch = 0; epoch < epochs; ++epoch) {
        change(file, epoch);
        CALL(H5Fflush(file, H5F_SCOPE_GLOBAL));
        char line[32];
        snprintf(line, sizeof line, "flushed %d\n", epoch + 1);
        tell(line);
    }
    if (tail) change(file, epochs);
    meet();
    if (!closes) return raise(SIGKILL);
    H5Pclose(list);
    H5Pclose(access);
    CALL(H5Fclose(file));
    tell("closed\n");
#ifdef CRASH_WITH_MPI
    if (with_mpi) MPI_Finalize();
#endif
    return 0;
}
