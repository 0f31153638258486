/* A program with Async VOL's calls, in the order of its documentation. Prints what went wrong. */
#include <stdio.h>
#include <string.h>

#include <H5VLconnector.h>

#include "h5_async_lib.h"

static int status = 0;
#define CHECK(condition)                                         \
    do {                                                         \
        if (!(condition)) {                                      \
            printf("WRONG %s, line %d\n", #condition, __LINE__); \
            status = 1;                                          \
        }                                                        \
    } while (0)

enum { kWords = 50000 };
static int written[kWords], found[kWords];

static void properties(void) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    hbool_t set = 1;
    uint64_t delay = 1;
    CHECK(H5Pget_fapl_disable_async_implicit(access, &set) >= 0 && !set);
    CHECK(H5Pset_fapl_disable_async_implicit(access, 1) >= 0);
    CHECK(H5Pget_fapl_disable_async_implicit(access, &set) >= 0 && set);
    CHECK(H5Pget_dxpl_disable_async_implicit(transfer, &set) >= 0 && !set);
    CHECK(H5Pset_dxpl_disable_async_implicit(transfer, 1) >= 0 && H5Pset_dxpl_disable_async_implicit(transfer, 0) >= 0);
    CHECK(H5Pget_dxpl_disable_async_implicit(transfer, &set) >= 0 && !set);
    CHECK(H5Pset_dxpl_pause(transfer, 1) >= 0 && H5Pget_dxpl_pause(transfer, &set) >= 0 && set);
    CHECK(H5Pget_dxpl_delay(transfer, &delay) >= 0 && delay == 0);
    CHECK(H5Pset_dxpl_delay(transfer, 1234) >= 0 && H5Pget_dxpl_delay(transfer, &delay) >= 0 && delay == 1234);
#ifndef ORIGINAL_LIBRARY /* which does not look at the class of a list */
    H5E_BEGIN_TRY {
        CHECK(H5Pset_dxpl_pause(access, 1) < 0 && H5Pset_fapl_disable_async_implicit(transfer, 1) < 0);
        CHECK(H5Pget_dxpl_pause(transfer, NULL) < 0);
    }
    H5E_END_TRY
#endif
    H5Pclose(access);
    H5Pclose(transfer);
}

/* What stands in the event set may be told to begin, and to come after one another: a read, and with Async VOL's name
 * also the calls before it, of which H5Fcreate_async counts twice. */
static void requests_in(hid_t events) {
    hid_t connectors[4] = {0};
    void *requests[4] = {NULL};
    size_t count = 0;
    CHECK(H5ESget_requests(events, H5_ITER_NATIVE, connectors, requests, 4, &count) >= 0);
    CHECK(count == 1 || count == 5);
    CHECK(H5async_start(requests[0]) >= 0 && H5async_set_request_dep(requests[0], requests[0]) >= 0);
}

static void wrong_objects(hid_t file, hid_t dataset) {
    H5E_BEGIN_TRY {
        CHECK(H5Fwait(dataset, H5P_DEFAULT) < 0 && H5Dwait(file, H5P_DEFAULT) < 0);
        CHECK(H5Fpause(12345, H5P_DEFAULT) < 0 && H5Dstart(-1, H5P_DEFAULT) < 0);
        CHECK(H5async_start(NULL) < 0 && H5async_set_request_dep(NULL, NULL) < 0);
    }
    H5E_END_TRY
}

int main(int argc, char **argv) {
    const hsize_t extent[] = {kWords};
    for (int i = 0; i < kWords; ++i) written[i] = 31 * i;
    properties();
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS), events = H5EScreate();
    if (argc > 1 && strcmp(argv[1], "by-list") == 0) CHECK(H5Pset_vol_async(access) >= 0);
    const hid_t file = H5Fcreate_async("async.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access, events);
    const hid_t space = H5Screate_simple(1, extent, NULL);
    const hid_t dataset = H5Dcreate_async(file, "words", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT,
                                          events);
    CHECK(file >= 0 && dataset >= 0);
    CHECK(H5Fset_delay_time(file, H5P_DEFAULT, 1000) >= 0 && H5Dset_delay_time(dataset, H5P_DEFAULT, 1000) >= 0);
    CHECK(H5Fpause(file, H5P_DEFAULT) >= 0);
    CHECK(H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, written, events) >= 0);
    CHECK(H5Fstart(file, H5P_DEFAULT) >= 0 && H5Dpause(dataset, H5P_DEFAULT) >= 0);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found, events) >= 0);
    requests_in(events);
    CHECK(H5Dstart(dataset, H5P_DEFAULT) >= 0);
    CHECK(H5Dwait(dataset, H5P_DEFAULT) >= 0);
    CHECK(memcmp(found, written, sizeof found) == 0);
    memset(found, 0, sizeof found);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found, events) >= 0);
    CHECK(H5Fwait(file, H5P_DEFAULT) >= 0);
    CHECK(memcmp(found, written, sizeof found) == 0);
    wrong_objects(file, dataset);
    CHECK(H5Dclose_async(dataset, events) >= 0 && H5Fclose_async(file, events) >= 0);
    size_t left = 1;
    hbool_t failed = 1;
    CHECK(H5ESwait(events, H5ES_WAIT_FOREVER, &left, &failed) >= 0 && left == 0 && !failed);
    CHECK(H5ESclose(events) >= 0);
    H5Sclose(space);
    H5Pclose(access);
    printf("done\n");
    return status;
}
