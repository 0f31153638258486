/* An allocation of one HDF5 call fails: `allocation_program first|open|objects|read`, with failing_allocations.so
 * loaded before. Each allocation has a process of its own. The call may fail, or not. Later calls succeed, and once the
 * program has closed the file, HDF5 has it open no more. The program prints how many allocations there were and, for
 * `read`, how many reads event sets had. With `first` the process opens its first file, else another one was open
 * before. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hdf5.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

enum { kWords = 100000, kNoneFailed = 3 };
static int written[kWords], found[kWords];
static int (*fail_allocation)(long nth);

static hid_t create_named(const char *name) { return H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); }
static hid_t create(void) { return create_named("x.h5"); }

/* Returns the dataset. */
static hid_t write_words(hid_t file) {
    const hsize_t extent[] = {kWords};
    const hid_t space = H5Screate_simple(1, extent, NULL);
    const hid_t words = H5Dcreate2(file, "words", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(words, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, written) >= 0 && H5Sclose(space) >= 0);
    return words;
}

/* The close was the last of all: HDF5 refuses to empty a file that it still has open. */
static void close_for_good(hid_t file) {
    CHECK(H5Fclose(file) >= 0);
    CHECK(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 0);
    file = create();
    CHECK(file >= 0 && H5Fclose(file) >= 0);
}

/* If a step of HDF5 after the connector's open fails, HDF5 leaves an identifier of the file (H5F.c: "file will not be
 * closed"). */
static void close_left(hid_t but) {
    hid_t left[8];
    const ssize_t count = H5Fget_obj_ids(H5F_OBJ_ALL, H5F_OBJ_FILE, 8, left);
    for (ssize_t i = 0; i < count; ++i)
        if (left[i] != but) CHECK(H5Fclose(left[i]) >= 0);
}

/* Each function returns 1 if the nth allocation of a call has failed, or 0 if no call made so many. */
static int open_file(long nth) {
    fail_allocation(nth);
    hid_t file = create();
    int failed = fail_allocation(0);
    CHECK(file >= 0 || failed);
    if (file < 0) {
        close_left(H5I_INVALID_HID);
        file = create();
    }
    CHECK(file >= 0 && H5Dclose(write_words(file)) >= 0);
    fail_allocation(nth);
    hid_t again = H5Freopen(file);
    failed |= fail_allocation(0);
    if (again < 0) {
        close_left(file);
        again = H5Freopen(file);
    }
    CHECK(again >= 0 && H5Fclose(again) >= 0 && H5Fclose(file) >= 0);
    file = H5Fopen("x.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t words = H5Dopen2(file, "words", H5P_DEFAULT);
    CHECK(H5Dread(words, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found) >= 0 && H5Dclose(words) >= 0);
    CHECK(memcmp(found, written, sizeof written) == 0);
    close_for_good(file);
    return failed;
}

static hid_t make_object(hid_t file, int kind) {
    const hid_t list = H5P_DEFAULT;
    hid_t made = H5I_INVALID_HID;
    switch (kind) {
        case 0: return H5Gcreate2(file, "group", list, list, list);
        case 1: return H5Gopen2(file, "words' group", list);
        case 2: return H5Dcreate2(file, "data", H5T_NATIVE_INT, H5Screate(H5S_SCALAR), list, list, list);
        case 3: return H5Dopen2(file, "words", list);
        case 4: return H5Acreate2(file, "attribute", H5T_NATIVE_INT, H5Screate(H5S_SCALAR), list, list);
        case 5: return H5Aopen(file, "known", list);
        case 6: return H5Oopen(file, "words", list);
        case 7:
            made = H5Tcopy(H5T_NATIVE_INT);
            if (H5Tcommit2(file, "type", made, list, list, list) >= 0) return made;
            CHECK(H5Tclose(made) >= 0);
            return H5I_INVALID_HID;
        default: return H5Topen2(file, "known type", list);
    }
}

static int open_objects(long nth) {
    const hid_t list = H5P_DEFAULT, file = create(), type = H5Tcopy(H5T_NATIVE_INT);
    CHECK(file >= 0 && H5Dclose(write_words(file)) >= 0);
    CHECK(H5Tcommit2(file, "known type", type, list, list, list) >= 0 && H5Tclose(type) >= 0);
    CHECK(H5Gclose(H5Gcreate2(file, "words' group", list, list, list)) >= 0);
    CHECK(H5Aclose(H5Acreate2(file, "known", H5T_NATIVE_INT, H5Screate(H5S_SCALAR), list, list)) >= 0);
    int failed = 0;
    for (int kind = 0; kind <= 8; ++kind) {
        fail_allocation(nth);
        const hid_t made = make_object(file, kind);
        const int now = fail_allocation(0);
        CHECK(made >= 0 || now);
        if (made >= 0) CHECK(H5Idec_ref(made) >= 0);
        failed |= now;
    }
    close_for_good(file);
    return failed;
}

/* The program may use its memory again once the event set has no read of it. */
static int read_words(long nth) {
    const hid_t file = create(), words = write_words(file), set = H5EScreate();
    CHECK(H5Fflush(file, H5F_SCOPE_LOCAL) >= 0);
    fail_allocation(nth);
    const herr_t result = H5Dread_async(words, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found, set);
    const int failed = fail_allocation(0);
    size_t reads = 0, left = 1;
    hbool_t read_failed = 1;
    CHECK(result >= 0 || failed);
    CHECK(H5ESget_count(set, &reads) >= 0 && H5ESwait(set, H5ES_WAIT_FOREVER, &left, &read_failed) >= 0);
    CHECK(result < 0 || read_failed || memcmp(found, written, sizeof written) == 0);
    if (reads > 0) printf("a read in the event set\n");
    CHECK(H5ESclose(set) >= 0 && H5Dclose(words) >= 0);
    close_for_good(file);
    return failed;
}

int main(int argc, char **argv) {
    int (*const part)(long) = argc < 2                          ? NULL
                              : strcmp(argv[1], "objects") == 0 ? open_objects
                              : strcmp(argv[1], "read") == 0    ? read_words
                                                                : open_file;
    *(void **)&fail_allocation = dlsym(RTLD_DEFAULT, "fail_allocation");
    CHECK(part != NULL && fail_allocation != NULL);
    for (int i = 0; i < kWords; ++i) written[i] = i * 7 + 1;
    for (long nth = 1;; ++nth) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            CHECK(H5open() >= 0 && H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0);
            if (strcmp(argv[1], "first") != 0) CHECK(H5Fclose(create_named("earlier.h5")) >= 0);
            exit(part(nth) ? 0 : kNoneFailed);
        }
        int ended = 0;
        CHECK(child > 0 && waitpid(child, &ended, 0) == child);
        if (WIFEXITED(ended) && WEXITSTATUS(ended) == kNoneFailed) {
            printf("%ld allocations\n", nth - 1);
            return 0;
        }
        if (ended != 0) fprintf(stderr, "with allocation %ld the process ended with %d\n", nth, ended);
        CHECK(ended == 0);
    }
}
