/* In the place of Async VOL's own static library, for what forebay's plugin has to withstand of programs that were
 * linked with it. It does to HDF5 what that one does: it loads the connector by its name, wants all of its operations
 * to be there before it calls the first, and makes an information object that ends with the connector beneath. */
#include <H5VLconnector.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "h5_async_lib.h"

enum {
    kFileWait,
    kFileStart,
    kFilePause,
    kFileDelay,
    kDatasetWait,
    kDatasetStart,
    kDatasetPause,
    kDatasetDelay,
    kRequestStart,
    kRequestDependency,
    kOperations
};

static const struct {
    H5VL_subclass_t of;
    const char *name;
} kNames[kOperations] = {
    {H5VL_SUBCLS_FILE, "gov.lbl.async.file.wait"},        {H5VL_SUBCLS_FILE, "gov.lbl.async.file.start"},
    {H5VL_SUBCLS_FILE, "gov.lbl.async.file.pause"},       {H5VL_SUBCLS_FILE, "gov.lbl.async.file.delay"},
    {H5VL_SUBCLS_DATASET, "gov.lbl.async.dataset.wait"},  {H5VL_SUBCLS_DATASET, "gov.lbl.async.dataset.start"},
    {H5VL_SUBCLS_DATASET, "gov.lbl.async.dataset.pause"}, {H5VL_SUBCLS_DATASET, "gov.lbl.async.dataset.delay"},
    {H5VL_SUBCLS_REQUEST, "gov.lbl.async.request.start"}, {H5VL_SUBCLS_REQUEST, "gov.lbl.async.request.dep"},
};

static int operations[kOperations];
static hid_t connector = H5I_INVALID_HID;

static herr_t set_up(void) {
    if (connector >= 0) return 0;
    const hid_t loaded = H5VLregister_connector_by_name("async", H5P_DEFAULT);
    if (loaded < 0) return -1;
    for (int i = 0; i < kOperations; ++i)
        if (H5VLfind_opt_operation(kNames[i].of, kNames[i].name, &operations[i]) < 0) return -1;
    connector = loaded;
    return 0;
}

static herr_t of_file(int which, hid_t file, hid_t list, void *arguments) {
    if (set_up() < 0) return -1;
    H5VL_optional_args_t call = {operations[which], arguments};
    return H5VLfile_optional_op(file, &call, list, H5ES_NONE);
}

static herr_t of_dataset(int which, hid_t dataset, hid_t list, void *arguments) {
    if (set_up() < 0) return -1;
    H5VL_optional_args_t call = {operations[which], arguments};
    return H5VLdataset_optional_op(dataset, &call, list, H5ES_NONE);
}

herr_t H5Fwait(hid_t file_id, hid_t dxpl_id) { return of_file(kFileWait, file_id, dxpl_id, NULL); }
herr_t H5Fstart(hid_t file_id, hid_t dxpl_id) { return of_file(kFileStart, file_id, dxpl_id, NULL); }
herr_t H5Fpause(hid_t file_id, hid_t dxpl_id) { return of_file(kFilePause, file_id, dxpl_id, NULL); }
herr_t H5Fset_delay_time(hid_t file_id, hid_t dxpl_id, uint64_t time_us) {
    return of_file(kFileDelay, file_id, dxpl_id, &time_us);
}
herr_t H5Dwait(hid_t dset_id, hid_t dxpl_id) { return of_dataset(kDatasetWait, dset_id, dxpl_id, NULL); }
herr_t H5Dstart(hid_t dset_id, hid_t dxpl_id) { return of_dataset(kDatasetStart, dset_id, dxpl_id, NULL); }
herr_t H5Dpause(hid_t dset_id, hid_t dxpl_id) { return of_dataset(kDatasetPause, dset_id, dxpl_id, NULL); }
herr_t H5Dset_delay_time(hid_t dset_id, hid_t dxpl_id, uint64_t time_us) {
    return of_dataset(kDatasetDelay, dset_id, dxpl_id, &time_us);
}

static herr_t of_request(int which, void *request, void *arguments) {
    if (request == NULL || set_up() < 0) return -1;
    H5VL_optional_args_t call = {operations[which], arguments};
    return H5VLrequest_optional_op(request, connector, &call);
}

herr_t H5async_start(void *request) { return of_request(kRequestStart, request, NULL); }
herr_t H5async_set_request_dep(void *request, void *parent_request) {
    return of_request(kRequestDependency, request, &parent_request);
}

/* At the end of a page, with none behind it: whoever reads on is ended. */
herr_t H5Pset_vol_async(hid_t fapl_id) {
    if (set_up() < 0) return -1;
    struct {
        hid_t under_vol_id;
        void *under_vol_info;
    } info = {H5I_INVALID_HID, NULL};
    if (H5Pget_vol_id(fapl_id, &info.under_vol_id) < 0 || info.under_vol_id == connector ||
        H5Pget_vol_info(fapl_id, &info.under_vol_info) < 0)
        return info.under_vol_id == connector ? 0 : -1;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || munmap(pages + page, page) != 0) return -1;
    const herr_t result = H5Pset_vol(fapl_id, connector, memcpy(pages + page - sizeof info, &info, sizeof info));
    munmap(pages, page);
    return result;
}

/* ---- property lists: temporary properties of these names ------------------------------------------ */

static herr_t put(hid_t list, const char *name, const void *value, size_t size) {
    union {
        hbool_t is;
        uint64_t time;
    } own = {0};
    memcpy(&own, value, size);
    const htri_t there = H5Pexist(list, name);
    if (there < 0) return -1;
    return there > 0 ? H5Pset(list, name, &own)
                     : H5Pinsert2(list, name, size, &own, NULL, NULL, NULL, NULL, NULL, NULL);
}

static herr_t get(hid_t list, const char *name, void *value, size_t size) {
    memset(value, 0, size);
    return H5Pexist(list, name) > 0 ? H5Pget(list, name, value) : 0;
}

#define PROPERTY(suffix, name, type)                                                                 \
    herr_t H5Pset_##suffix(hid_t list, type value) { return put(list, name, &value, sizeof value); } \
    herr_t H5Pget_##suffix(hid_t list, type *value) { return get(list, name, value, sizeof *value); }
PROPERTY(fapl_disable_async_implicit, "gov.lbl.async.disable.implicit", hbool_t)
PROPERTY(dxpl_disable_async_implicit, "gov.lbl.async.disable.implicit", hbool_t)
PROPERTY(dxpl_pause, "gov.lbl.async.pause", hbool_t)
PROPERTY(dxpl_delay, "gov.lbl.async.delay", uint64_t)
