/* Event sets while a file does not answer, or fails. The working directory is on slowfs. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "async_calls.h"

enum { kWords = 1 << 14, kParts = 8, kPart = kWords / kParts };
static int written[kWords], found[kParts][kPart];

struct opened {
    hid_t file, dataset, events, memory, space;
};

/* A file with one dataset, written natively or not, opened again for reading. */
static struct opened open_words(const char *path) {
    const hsize_t extent[] = {kWords}, part[] = {kPart};
    struct opened opened;
    for (int i = 0; i < kWords; ++i) written[i] = i * 13 + 1;
    opened.file = make_file(path, H5P_DEFAULT);
    opened.dataset = make_dataset(opened.file, "words", H5T_NATIVE_INT, 1, extent, NULL);
    CHECK(H5Dwrite(opened.dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, written) >= 0);
    H5Dclose(opened.dataset);
    CHECK(H5Fclose(opened.file) >= 0);
    opened.file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    opened.dataset = H5Dopen2(opened.file, "words", H5P_DEFAULT);
    opened.memory = H5Screate_simple(1, part, NULL);
    opened.space = H5Dget_space(opened.dataset);
    opened.events = H5EScreate();
    memset(found, 0, sizeof found);
    return opened;
}

static int read_part(const struct opened *opened, int part) {
    const hsize_t at[] = {(hsize_t)part * kPart}, size[] = {kPart};
    H5Sselect_hyperslab(opened->space, H5S_SELECT_SET, at, NULL, size, NULL);
    return H5Dread_async(opened->dataset, H5T_NATIVE_INT, opened->memory, opened->space, H5P_DEFAULT, found[part],
                         opened->events) >= 0;
}

static int is_right(int part) { return memcmp(found[part], &written[part * kPart], sizeof found[part]) == 0; }

static void close_words(const struct opened *opened) {
    H5Sclose(opened->memory);
    H5Sclose(opened->space);
    H5Dclose(opened->dataset);
    CHECK(H5Fclose(opened->file) >= 0);
    CHECK(H5ESclose(opened->events) >= 0);
}

static void *let_go(void *unused) {
    (void)unused;
    slowfs("clear");
    return NULL;
}

/* A time-out ends, closing the set is refused, and closing the dataset waits. */
void hanging(void) {
    const struct opened opened = open_words("hanging.h5");
    slowfs("fault op=read,hang");
    for (int part = 0; part < kParts - 1; ++part) CHECK(read_part(&opened, part));
    size_t count = 0, left = 0;
    uint64_t operations = 0;
    hbool_t failed = 1;
    CHECK(H5ESget_count(opened.events, &count) >= 0 && H5ESget_op_counter(opened.events, &operations) >= 0);
    printf("async count %zu operations %llu\n", count, (unsigned long long)operations);
    CHECK(H5ESwait(opened.events, H5ES_WAIT_NONE, &left, &failed) >= 0 && !failed);
    CHECK(H5ESwait(opened.events, 1000000, &left, &failed) >= 0 && !failed);
    printf("async left %zu\n", left);
    H5E_BEGIN_TRY { CHECK(H5ESclose(opened.events) < 0); }
    H5E_END_TRY
    slowfs("clear");
    CHECK(wait_all(opened.events, NULL) == 0);
    for (int part = 0; part < kParts - 1; ++part) CHECK(is_right(part));
    slowfs("fault op=read,hang");
    CHECK(read_part(&opened, kParts - 1));
    pthread_t helper;
    CHECK(pthread_create(&helper, NULL, let_go, NULL) == 0);
    CHECK(H5Dclose(opened.dataset) >= 0);
    CHECK(is_right(kParts - 1));
    pthread_join(helper, NULL);
    CHECK(wait_all(opened.events, NULL) == 0);
    H5Sclose(opened.memory);
    H5Sclose(opened.space);
    CHECK(H5Fclose(opened.file) >= 0 && H5ESclose(opened.events) >= 0);
}

/* What has not begun is canceled, and leaves its buffer alone; what has begun goes on. */
void canceled(void) {
    const struct opened opened = open_words("canceled.h5");
    slowfs("fault op=read,hang");
    for (int part = 0; part < kParts; ++part) CHECK(read_part(&opened, part));
    size_t not_canceled = 99, count = 99;
    hbool_t failed = 1;
    CHECK(H5EScancel(opened.events, &not_canceled, &failed) >= 0 && !failed);
    CHECK(H5ESget_count(opened.events, &count) >= 0 && count == not_canceled);
    printf("async at least one is canceled: %d\n", not_canceled < kParts);
    slowfs("clear");
    CHECK(wait_all(opened.events, NULL) == 0);
    size_t right = 0;
    for (int part = 0; part < kParts; ++part) {
        int untouched = 1;
        for (int i = 0; i < kPart; ++i) untouched &= found[part][i] == 0;
        CHECK(is_right(part) || untouched);
        right += (size_t)is_right(part);
    }
    CHECK(right == not_canceled);
    close_words(&opened);
}

static herr_t show_error(unsigned n, const H5E_error2_t *error, void *seen) {
    (void)n;
    if (error->desc != NULL && strstr(error->desc, "Input/output error") != NULL) *(int *)seen = 1;
    return 0;
}

/* A read that fails in the background is the event set's to tell, and no other one's. */
void erring(void) {
    const struct opened opened = open_words("erring.h5"), other = open_words("other.h5");
    const hid_t others = H5EScreate();
    slowfs("fault op=read,errno=EIO,path=erring.h5");
    CHECK(read_part(&opened, 0));
    const hsize_t at[] = {0}, size[] = {kPart};
    static int elsewhere[kPart];
    H5Sselect_hyperslab(other.space, H5S_SELECT_SET, at, NULL, size, NULL);
    CHECK(H5Dread_async(other.dataset, H5T_NATIVE_INT, other.memory, other.space, H5P_DEFAULT, elsewhere, others) >= 0);
    int failed = 0;
    wait_all(opened.events, &failed);
    CHECK(failed);
    CHECK(wait_all(others, NULL) == 0 && memcmp(elsewhere, written, sizeof elsewhere) == 0);
    hbool_t status = 0;
    size_t count = 0, cleared = 0;
    CHECK(H5ESget_err_status(opened.events, &status) >= 0 && status);
    CHECK(H5ESget_err_count(opened.events, &count) >= 0 && count == 1);
    H5ES_err_info_t info;
    CHECK(H5ESget_err_info(opened.events, 1, &info, &cleared) >= 0 && cleared == 1);
    CHECK(strcmp(info.api_name, "H5Dread_async") == 0 && strstr(info.app_file_name, "async_faults.c") != NULL);
    int seen = 0;
    CHECK(H5Ewalk2(info.err_stack_id, H5E_WALK_DOWNWARD, show_error, &seen) >= 0 && seen);
    CHECK(H5ESfree_err_info(1, &info) >= 0);
    printf("async told\n");
    slowfs("clear");
    const hid_t again = H5EScreate(); /* a set that has failed takes nothing more */
    CHECK(H5Dread_async(opened.dataset, H5T_NATIVE_INT, opened.memory, opened.space, H5P_DEFAULT, found[0], again) >=
          0);
    wait_all(again, NULL);
    CHECK(H5ESclose(again) >= 0 && H5ESclose(others) >= 0);
    close_words(&other);
    close_words(&opened);
}

/* A child waits for nothing that its parent has begun, and the parent's reads go on. */
void forked(void) {
    const struct opened opened = open_words("forked.h5");
    slowfs("fault op=read,hang");
    for (int part = 0; part < kParts; ++part) CHECK(read_part(&opened, part));
    const pid_t child = fork();
    if (child == 0) {
        size_t left = 99;
        hbool_t failed = 0;
        const int good = H5ESwait(opened.events, H5ES_WAIT_FOREVER, &left, &failed) >= 0 && failed;
        _exit(good ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    slowfs("clear");
    CHECK(wait_all(opened.events, NULL) == 0);
    for (int part = 0; part < kParts; ++part) CHECK(is_right(part));
    close_words(&opened);
}
