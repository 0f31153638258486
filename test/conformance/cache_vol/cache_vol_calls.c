/* Every call of Cache VOL's API, in the state in which it is meant and in every wrong one. One part a run:
 *
 *     cache_vol_calls PART FILE
 *
 * Prints what it has read, and the outcome of each call that may fail. What it writes is compared with native by the
 * test that runs it. A check that does not hold ends the program with status 1.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <H5VLcache_ext.h>
#include <H5VLconnector.h>
#include <cache_new_h5api.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

enum { kRows = 512, kColumns = 256, kSteps = 6 };

static double values[kRows * kColumns];

static void fill(int step) {
    for (int i = 0; i < kRows * kColumns; ++i) values[i] = i + 1000000.0 * step;
}

/* Natively there are no operations; what they would have answered is 0. */
static bool with_operations(void) {
    const char *connector = getenv("HDF5_VOL_CONNECTOR");
    return connector != NULL && *connector != '\0';
}
#define DO(call) CHECK(!with_operations() || (call) >= 0)

static hid_t make_dataset(hid_t file, int step, bool chunked) {
    const hsize_t dims[] = {kRows, kColumns}, chunk[] = {64, 100};
    char name[32];
    snprintf(name, sizeof name, "step%d", step);
    const hid_t space = H5Screate_simple(2, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_obj_track_times(list, false) >= 0); /* two runs make the same file */
    if (chunked) CHECK(H5Pset_chunk(list, 2, chunk) >= 0 && H5Pset_shuffle(list) >= 0 && H5Pset_deflate(list, 1) >= 0);
    const hid_t dataset = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    CHECK(dataset >= 0);
    H5Pclose(list);
    H5Sclose(space);
    return dataset;
}

static void write_step(hid_t dataset, int step) {
    fill(step);
    CHECK(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
}

/* ---- writing -------------------------------------------------------------------------------------- */

static void write_file(const char *path, hid_t list, bool creates) {
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    CHECK(file >= 0);
    if (creates) {
        DO(H5Fcache_create(file, H5P_DEFAULT, 1 << 20, WRITE, TEMPORAL));
        DO(H5Freserve_cache(file, H5P_DEFAULT, 1 << 20, RDWR, PERMANENT));
    }
    DO(H5Fcache_async_close_set(file));
    hsize_t kept = 0;
    DO(H5Fquery_cache(file, H5P_DEFAULT, &kept));
    for (int step = 0; step < kSteps; ++step) {
        const hid_t dataset = make_dataset(file, step, step % 2 == 1);
        DO(H5Dcache_create(dataset, "cache"));
        DO(step % 2 == 0 ? H5Fcache_async_op_pause(file) : H5Dcache_async_op_pause(dataset));
        write_step(dataset, step);
        DO(step % 2 == 0 ? H5Fcache_async_op_start(file) : H5Dcache_async_op_start(dataset));
        DO(H5Dmmap_remap(dataset));
        DO(H5Dcache_remove(dataset));
        CHECK(H5Dclose(dataset) >= 0);
        if (step == 2) CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
        if (step == 3) DO(H5Fcache_async_close_wait(file));
        if (step == 4) DO(H5Fquery_cache(file, H5P_DEFAULT, &kept));
    }
    DO(H5Fasync_pause(file));
    DO(H5Fasync_start(file));
    DO(async_close_start());
    DO(set_close_async(true));
    DO(async_close_wait());
    CHECK(H5Fclose(file) >= 0);
}

static void write_default(const char *path) { write_file(path, H5P_DEFAULT, true); }

/* Paused, and never started: closing the file drains it. */
static void write_paused(const char *path) {
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    DO(H5Fcache_async_op_pause(file));
    for (int step = 0; step < kSteps; ++step) {
        const hid_t dataset = make_dataset(file, step, false);
        DO(H5Dcache_async_op_pause(dataset));
        write_step(dataset, step);
        CHECK(H5Dclose(dataset) >= 0);
    }
    CHECK(H5Fclose(file) >= 0);
}

/* In the middle the file is staged no more. */
static void write_removed(const char *path) {
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    for (int step = 0; step < kSteps; ++step) {
        const hid_t dataset = make_dataset(file, step, false);
        write_step(dataset, step);
        CHECK(H5Dclose(dataset) >= 0);
        if (step == 2 || step == 4) DO(H5Fcache_remove(file));
    }
    CHECK(H5Fclose(file) >= 0);
}

/* Staged, not staged, and so on; rows are written again across each change. */
static void write_again(const char *path) {
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t first = make_dataset(file, 0, false), packed = make_dataset(file, 1, true);
    for (int step = 2; step < 12; ++step) {
        write_step(first, step);
        write_step(packed, step);
        if (step % 2 == 0) DO(H5Fcache_remove(file));
        else DO(H5Fcache_create(file, H5P_DEFAULT, 1 << 20, step % 4 == 1 ? WRITE : RDWR, TEMPORAL));
        if (step % 3 == 0) CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
        const hid_t dataset = make_dataset(file, step, step % 5 == 0);
        write_step(dataset, step);
        static double into[kRows * kColumns];
        CHECK(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, into) >= 0);
        CHECK(memcmp(into, values, sizeof into) == 0);
        CHECK(H5Dclose(dataset) >= 0);
    }
    CHECK(H5Dclose(first) >= 0 && H5Dclose(packed) >= 0 && H5Fclose(file) >= 0);
}

/* The access list says that the file is staged: in each spelling, and that it is not. */
static void write_by_list(const char *path) {
    char other[4096];
    for (int spelling = 0; spelling < 5; ++spelling) {
        const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
        bool on = true, got = false;
        if (spelling == 0) CHECK(H5Pset_fapl_cache(list, "HDF5_CACHE_WR", &on) >= 0);
        if (spelling == 1) CHECK(H5Pset_fapl_cache(list, "HDF5_CACHE_WR", true) >= 0);
        if (spelling == 2) CHECK(H5Pset_fapl_plist(list, "HDF5_CACHE_WR", true) >= 0);
        if (spelling == 3) CHECK(H5Pinsert2(list, "HDF5_CACHE_WR", sizeof on, &on, 0, 0, 0, 0, 0, 0) >= 0);
        if (spelling == 4) {
            on = false;
            CHECK(H5Pset_fapl_cache(list, "HDF5_CACHE_WR", true) >= 0);
            CHECK(H5Pset_fapl_cache(list, "HDF5_CACHE_WR", &on) >= 0);
        }
        CHECK(H5Pget_fapl_cache(list, "HDF5_CACHE_WR", &got) >= 0 && got == on);
        snprintf(other, sizeof other, "%s.%d", path, spelling);
        write_file(other, list, false);
        H5Pclose(list);
    }
}

/* The connector and its information, by the program itself: HDF5_VOL_CONNECTOR does not name it. */
static void write_with_info(const char *path) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (getenv("CACHE_VOL_CONFIG") != NULL) {
        H5VL_cache_ext_info_t info = {H5VL_NATIVE, NULL, ""}, *same = NULL;
        CHECK(strlen(getenv("CACHE_VOL_CONFIG")) < sizeof info.fconfig);
        strcpy(info.fconfig, getenv("CACHE_VOL_CONFIG"));
        const hid_t connector = H5VL_CACHE_EXT;
        char *text = NULL;
        CHECK(connector >= 0 && H5Pset_vol(list, connector, &info) >= 0);
        CHECK(H5Pget_vol_info(list, (void **)&same) >= 0 && same != NULL);
        CHECK(H5VLconnector_info_to_str(same, connector, &text) >= 0);
        CHECK(strstr(text, info.fconfig) != NULL);
        CHECK(H5free_memory(text) >= 0 && H5VLfree_connector_info(connector, same) >= 0 && H5VLclose(connector) >= 0);
    }
    write_file(path, list, false);
    CHECK(H5Pclose(list) >= 0);
}

/* A local storage in the access list. */
static void write_to_storage(const char *path) {
    const hid_t plist = H5Pcreate(H5P_LOCAL_STORAGE_CREATE);
    LocalStorage *storage = H5LScreate(plist);
    CHECK(plist >= 0 && storage != NULL);
    CHECK(H5LSset(storage, "SSD", getenv("CACHE_VOL_STORAGE"), 1ull << 30, LRU) >= 0);
    storage->write_buffer_size = 64e6;
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    bool p = true;
    LocalStorage *got = NULL;
    CHECK(H5Pset_fapl_cache(list, "LOCAL_STORAGE", storage) >= 0);
    CHECK(H5Pset_fapl_cache(list, "HDF5_CACHE_WR", &p) >= 0);
    CHECK(H5Pget_fapl_cache(list, "LOCAL_STORAGE", &got) >= 0 && got == storage);
    write_file(path, list, false);
    CHECK(H5Pclose(list) >= 0 && H5Pclose(plist) >= 0 && H5LSclose(storage) >= 0);
}

static void write_async(const char *path) {
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), set = H5EScreate();
    size_t left = 1;
    hbool_t failed = true;
    DO(H5Fcache_create_async(file, H5P_DEFAULT, 1 << 20, WRITE, TEMPORAL, set));
    for (int step = 0; step < kSteps; ++step) {
        const hid_t dataset = make_dataset(file, step, false);
        DO(H5Dcache_create_async(dataset, "cache", set));
        write_step(dataset, step);
        double read[kColumns];
        const hsize_t start[] = {(hsize_t)step, 0}, count[] = {1, kColumns};
        const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, count + 1, NULL);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
        if (with_operations()) {
            CHECK(H5Dread_to_cache_async(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, read, set) >= 0);
            CHECK(memcmp(read, values + step * kColumns, sizeof read) == 0);
            memset(read, 0, sizeof read);
            CHECK(H5Dread_from_cache_async(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, read, set) >= 0);
            CHECK(memcmp(read, values + step * kColumns, sizeof read) == 0);
        }
        DO(H5Dprefetch_async(dataset, space, H5P_DEFAULT, set));
        DO(H5Dcache_remove_async(dataset, set));
        H5Sclose(space);
        H5Sclose(memory);
        CHECK(H5Dclose(dataset) >= 0);
    }
    DO(H5Fcache_remove_async(file, set));
    CHECK(H5ESwait(set, H5ES_WAIT_FOREVER, &left, &failed) >= 0 && left == 0 && !failed);
    CHECK(H5ESclose(set) >= 0 && H5Fclose(file) >= 0);
}

static void slowfs(const char *line) {
    FILE *control = fopen(getenv("CACHE_VOL_CONTROL"), "w");
    CHECK(control != NULL && fputs(line, control) >= 0 && fclose(control) == 0);
}

/* The target answers no read until the dataset is closed. */
static void close_at_once(const char *path) {
    const hid_t created = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                made = make_dataset(created, 0, false);
    write_step(made, 0);
    CHECK(H5Dclose(made) >= 0 && H5Fclose(created) >= 0);
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), dataset = H5Dopen2(file, "step0", H5P_DEFAULT);
    const hid_t set = H5EScreate();
    static double read[kRows * kColumns];
    if (getenv("HDF5_CACHE_DELAY_CLOSE") == NULL) CHECK(H5Fcache_async_close_set(file) >= 0);
    slowfs("fault op=read,hang");
    CHECK(H5Dread_async(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, read, set) >= 0);
    CHECK(H5Dclose(dataset) >= 0);
    slowfs("clear");
    CHECK(H5Fcache_async_close_wait(file) >= 0);
    CHECK(memcmp(read, values, sizeof read) == 0);
    size_t left = 1;
    hbool_t failed = true;
    CHECK(H5ESwait(set, H5ES_WAIT_FOREVER, &left, &failed) >= 0 && left == 0 && !failed);
    CHECK(H5ESclose(set) >= 0 && H5Fclose(file) >= 0);
}

/* ---- reading -------------------------------------------------------------------------------------- */

static unsigned long long digest(const double *numbers, size_t count) {
    unsigned long long sum = 1469598103934665603ull;
    for (size_t i = 0; i < count * sizeof *numbers; ++i)
        sum = (sum ^ ((const unsigned char *)numbers)[i]) * 1099511628211ull;
    return sum;
}

static herr_t read_with(int way, hid_t dataset, hid_t memory, hid_t space, hid_t transfer, double *into) {
    if (way == 1 && with_operations())
        return H5Dread_to_cache(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, into);
    if (way == 2 && with_operations())
        return H5Dread_from_cache(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, into);
    return H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, into);
}

static void read_file(const char *path) {
    static double into[kRows * kColumns];
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    bool on = true;
    CHECK(H5Pset_fapl_cache(list, "HDF5_CACHE_RD", &on) >= 0);
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, list);
    CHECK(file >= 0);
    for (int step = 0; step < kSteps; ++step) {
        char name[32];
        snprintf(name, sizeof name, "step%d", step);
        const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset);
        DO(H5Dprefetch(dataset, step % 2 == 0 ? H5S_ALL : space, H5P_DEFAULT));
        const hid_t transfer = step % 2 == 0 ? H5Pcreate(H5P_DATASET_XFER) : H5P_DATASET_XFER_DEFAULT;
        for (int way = 0; way < 3; ++way) {
            memset(into, 0xEE, sizeof into);
            CHECK(read_with(way, dataset, H5S_ALL, H5S_ALL, way == 1 ? H5P_DEFAULT : transfer, into) >= 0);
            printf("%s %d all %llx\n", name, way, digest(into, kRows * kColumns));
            /* Every third column of some rows, into the middle of memory: a halo. */
            const hsize_t start[] = {3, 1}, stride[] = {7, 3}, count[] = {40, 80}, memory_dims[] = {60, 100};
            const hsize_t memory_start[] = {10, 10};
            const hid_t memory = H5Screate_simple(2, memory_dims, NULL);
            CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL) >= 0);
            CHECK(H5Sselect_hyperslab(memory, H5S_SELECT_SET, memory_start, NULL, count, NULL) >= 0);
            DO(H5Dprefetch(dataset, space, H5P_DEFAULT));
            memset(into, 0xEE, sizeof into);
            CHECK(read_with(way, dataset, memory, space, transfer, into) >= 0);
            printf("%s %d part %llx\n", name, way, digest(into, 60 * 100));
            H5Sselect_all(space);
            H5Sclose(memory);
        }
        DO(H5Dcache_remove(dataset));
        CHECK(read_with(2, dataset, H5S_ALL, H5S_ALL, transfer, into) >= 0);
        printf("%s after %llx\n", name, digest(into, kRows * kColumns));
        H5Sclose(space);
        if (step % 2 == 0) H5Pclose(transfer);
        CHECK(H5Dclose(dataset) >= 0);
    }
    H5Pclose(list);
    CHECK(H5Fclose(file) >= 0);
}

/* ---- the account of a storage --------------------------------------------------------------------- */

static void keep_account(const char *path) {
    (void)path;
    cache_storage_t *storage = H5LScreate(H5P_DEFAULT);
    CHECK(storage != NULL);
    CHECK(H5LSset(storage, "MEMORY", NULL, 1000, LFU) >= 0);
    char *type = NULL;
    hsize_t size = 0;
    CHECK(H5LSget(storage, "TYPE", &type) >= 0 && strcmp(type, "MEMORY") == 0);
    CHECK(H5LSget(storage, "SIZE", &size) >= 0 && size == 1000);
    static const cache_replacement_policy_t policies[] = {FIFO, LIFO, LRU, LFU};
    static const int goes_first[] = {0, 2, 1, 1}; /* of three temporal caches that were used as below */
    for (int i = 0; i < 4; ++i) {
        cache_t caches[4] = {{0}};
        for (int j = 0; j < 4; ++j) {
            caches[j].duration = j == 3 ? PERMANENT : TEMPORAL;
            caches[j].mspace_total = 200;
            CHECK(H5LSclaim_space(storage, 200, SOFT, policies[i]) >= 0);
            CHECK(H5LSregister_cache(storage, &caches[j], NULL) >= 0);
        }
        CHECK(H5LSrecord_cache_access(&caches[0]) >= 0 && H5LSregister_access_count(&caches[2]) >= 0);
        caches[0].access_history.time_stamp[1] = 300;
        caches[1].access_history.time_stamp[0] = 100;
        caches[2].access_history.time_stamp[1] = 200;
        CHECK(storage->mspace_left == 200 && storage->num_cache == 4);
        CHECK(H5LSclaim_space(storage, 201, SOFT, policies[i]) < 0);
        CHECK(H5LSclaim_space(storage, 901, HARD, policies[i]) < 0);
        CHECK(storage->mspace_left == 200 && storage->num_cache == 4);
        CHECK(H5LSclaim_space(storage, 300, HARD, policies[i]) >= 0);
        CHECK(storage->num_cache == 3);
        CHECK(H5LSremove_cache(storage, &caches[goes_first[i]]) < 0);
        CHECK(storage->mspace_left == 100);
        CHECK(H5LSremove_cache(storage, &caches[3]) >= 0);
        CHECK(H5LSremove_cache_all(storage) >= 0 && storage->num_cache == 0);
        CHECK(H5LSset(storage, "MEMORY", NULL, 1000, policies[i]) >= 0);
    }
    cache_t long_used = {0};
    CHECK(H5LSregister_cache(storage, &long_used, NULL) >= 0 && H5LSregister_cache(storage, &long_used, NULL) < 0);
    for (int i = 0; i < 3 * MAX_NUM_CACHE_ACCESS; ++i) CHECK(H5LSrecord_cache_access(&long_used) >= 0);
    CHECK(get_replacement_policy_from_str("LIFO") == LIFO && (int)get_replacement_policy_from_str("X") < 0);
    CHECK(H5LSclose(storage) >= 0);
}

/* ---- what is wrong -------------------------------------------------------------------------------- */

static void *call_from_thread(void *path) {
    for (int i = 0; i < 100; ++i) {
        const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
        H5Pset_fapl_cache(list, "HDF5_CACHE_WR", true);
        H5Pclose(list);
        H5Fcache_async_op_pause(-1);
        H5Fcache_async_op_start(H5I_INVALID_HID);
    }
    return path;
}

static void do_wrong(const char *path) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t dataset = make_dataset(file, 0, false), space = H5Dget_space(dataset);
    write_step(dataset, 0);
    const hsize_t one[] = {7};
    const hid_t other_space = H5Screate_simple(1, one, NULL);
    const hid_t wrong[] = {-1, 0, 1, 12345, H5T_NATIVE_INT, H5P_FILE_ACCESS, space, INT64_MAX, INT64_MIN};
    static double into[kRows * kColumns];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        const hid_t id = wrong[i];
        CHECK(H5Fcache_async_op_pause(id) < 0 && H5Fcache_async_op_start(id) < 0 && H5Fcache_remove(id) < 0);
        CHECK(H5Fcache_create(id, H5P_DEFAULT, 1, WRITE, TEMPORAL) < 0 && H5Fcache_async_close_set(id) < 0);
        CHECK(H5Fcache_async_close_wait(id) < 0 && H5Dcache_async_op_pause(id) < 0 && H5Dcache_async_op_start(id) < 0);
        CHECK(H5Dprefetch(id, H5S_ALL, H5P_DEFAULT) < 0 && H5Dcache_create(id, "x") < 0 && H5Dcache_remove(id) < 0);
        hsize_t size = 0;
        CHECK(H5Dmmap_remap(id) < 0 && H5Fquery_cache(id, H5P_DEFAULT, &size) < 0 && H5Fasync_pause(id) < 0);
        CHECK(H5Dread_to_cache(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, into) < 0);
        CHECK(H5Dread_from_cache(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, into) < 0);
        if (id != H5T_NATIVE_INT) CHECK(H5Dread_to_cache(dataset, id, H5S_ALL, H5S_ALL, H5P_DEFAULT, into) < 0);
        if (id != 0) {
            CHECK(H5Dread_to_cache(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, id, into) < 0);
            if (id != space) {
                CHECK(H5Dread_from_cache(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, id, H5P_DEFAULT, into) < 0);
                CHECK(H5Dprefetch(dataset, id, H5P_DEFAULT) < 0);
            }
        }
        CHECK(H5Pset_fapl_cache(id, "HDF5_CACHE_WR", true) < 0);
        CHECK(H5Pget_fapl_cache(id, "HDF5_CACHE_WR", into) < 0);
    }
    CHECK(H5Fcache_async_op_pause(dataset) < 0 && H5Dcache_async_op_pause(file) < 0);
    CHECK(H5Dread_from_cache(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, NULL) < 0);
    CHECK(H5Dread_from_cache(dataset, H5T_NATIVE_DOUBLE, other_space, H5S_ALL, H5P_DEFAULT, into) < 0);
    CHECK(H5Dprefetch(dataset, other_space, H5P_DEFAULT) < 0);
    CHECK(H5Fcache_create(file, 12345, 0, (cache_purpose_t)77, (cache_duration_t)-3) >= 0); /* advice */
    CHECK(H5Dcache_create(dataset, NULL) >= 0);
    /* Started without a pause, paused twice, waited for twice. */
    CHECK(H5Fcache_async_op_start(file) >= 0 && H5Fcache_async_op_pause(file) >= 0);
    CHECK(H5Fcache_async_op_pause(file) >= 0 && H5Fcache_async_close_wait(file) >= 0);
    CHECK(H5Fcache_async_close_wait(file) >= 0 && H5Fcache_remove(file) >= 0 && H5Fcache_remove(file) >= 0);
    CHECK(H5Fcache_async_op_pause(file) >= 0);
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_cache(list, "UNHEARD_OF", into) < 0 && H5Pset_fapl_cache(list, NULL, into) < 0);
    CHECK(H5Pset_fapl_cache(list, "LOCAL_STORAGE", (void *)NULL) < 0);
    CHECK(H5Pget_fapl_cache(list, "HDF5_CACHE_RD", into) < 0 && H5Pget_fapl_cache(list, "HDF5_CACHE_RD", NULL) < 0);
    H5Pclose(list);
    CHECK(H5LSset(NULL, "SSD", "/", 1, LRU) < 0 && H5LSget(NULL, "TYPE", into) < 0 && H5LSclose(NULL) < 0);
    CHECK(H5LScreate(file) == NULL && readLSConf(NULL, NULL) < 0 && readLSConf("/nowhere", NULL) < 0);
    cache_storage_t *storage = H5LScreate(H5P_DEFAULT);
    CHECK(H5LSset(storage, "TAPE", "/", 1, LRU) < 0 && H5LSset(storage, "SSD", "/nowhere", 1, LRU) < 0);
    CHECK(H5LSset(storage, "SSD", "/", 1, (cache_replacement_policy_t)9) < 0 && readLSConf("/", storage) < 0);
    CHECK(H5LSget(storage, "UNHEARD_OF", into) < 0 && H5LSremove_cache(storage, NULL) < 0);
    CHECK(H5LSclose(storage) >= 0);
    CHECK(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0);
    CHECK(H5Fcache_async_op_pause(file) < 0 && H5Fcache_async_close_wait(file) < 0);
    CHECK(H5Dprefetch(dataset, H5S_ALL, H5P_DEFAULT) < 0);
    const hid_t read_only = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(read_only >= 0 && H5Fcache_create(read_only, H5P_DEFAULT, 1 << 20, READ, TEMPORAL) < 0);
    CHECK(H5Fclose(read_only) >= 0);
    H5Sclose(space);
    H5Sclose(other_space);
    hbool_t thread_safe = false;
    H5is_library_threadsafe(&thread_safe);
    if (!thread_safe) return;
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, call_from_thread, NULL) == 0);
    for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(const char *);
    } parts[] = {{"write", write_default},  {"paused", write_paused},      {"removed", write_removed},
                 {"list", write_by_list},   {"storage", write_to_storage}, {"again", write_again},
                 {"info", write_with_info}, {"async", write_async},        {"read", read_file},
                 {"account", keep_account}, {"wrong", do_wrong},           {"close", close_at_once}};
    for (size_t i = 0; argc == 3 && i < sizeof parts / sizeof *parts; ++i)
        if (strcmp(argv[1], parts[i].name) == 0) {
            parts[i].run(argv[2]);
            return 0;
        }
    return 2;
}
