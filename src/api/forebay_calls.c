/* The functions of forebay/forebay.h that take identifiers: each is one of HDF5's optional operations. */
#include <H5VLconnector.h>
#include <forebay/forebay.h>
#include <forebay/operations.h>
#include <hdf5.h>

static herr_t of_file(const char *name, int64_t file, void *arguments) {
    H5VL_optional_args_t call = {-1, arguments};
    if (H5open() < 0 || H5VLfind_opt_operation(H5VL_SUBCLS_FILE, name, &call.op_type) < 0) return -1;
    return H5VLfile_optional_op(file, &call, H5P_DATASET_XFER_DEFAULT, H5ES_NONE);
}

static herr_t of_dataset(const char *name, int64_t dataset, void *arguments) {
    H5VL_optional_args_t call = {-1, arguments};
    if (H5open() < 0 || H5VLfind_opt_operation(H5VL_SUBCLS_DATASET, name, &call.op_type) < 0) return -1;
    return H5VLdataset_optional_op(dataset, &call, H5P_DATASET_XFER_DEFAULT, H5ES_NONE);
}

int forebay_pause(int64_t file) { return of_file(FOREBAY_FILE_PAUSE, file, NULL); }

int forebay_start(int64_t file) { return of_file(FOREBAY_FILE_START, file, NULL); }

int forebay_wait_durable(int64_t file) { return of_file(FOREBAY_FILE_WAIT_DURABLE, file, NULL); }

int forebay_prefetch_file(int64_t file, uint64_t count, const uint64_t *offsets, const uint64_t *lengths) {
    struct forebay_ranges ranges = {count, offsets, lengths};
    return of_file(FOREBAY_FILE_PREFETCH, file, &ranges);
}

int forebay_prefetch_dataset(int64_t dataset, int64_t file_space) {
    struct forebay_selection selection = {file_space};
    return of_dataset(FOREBAY_DATASET_PREFETCH, dataset, &selection);
}

int forebay_follow(int64_t dataset, uint64_t count, const uint64_t *rows) {
    struct forebay_rows order = {count, rows};
    return of_dataset(FOREBAY_DATASET_FOLLOW, dataset, &order);
}

int forebay_prefetch_left_of(int64_t file, uint64_t *bytes) {
    struct forebay_bytes left = {bytes};
    return of_file(FOREBAY_FILE_PREFETCH_LEFT, file, &left);
}

int forebay_prefetch_cancel_of(int64_t file) { return of_file(FOREBAY_FILE_PREFETCH_CANCEL, file, NULL); }

int forebay_pin(int64_t file, int on) {
    struct forebay_switch pinned = {on};
    return of_file(FOREBAY_FILE_PIN, file, &pinned);
}

int forebay_evict(int64_t file, uint64_t *bytes) {
    uint64_t ignored = 0;
    struct forebay_bytes evicted = {bytes != NULL ? bytes : &ignored};
    return of_file(FOREBAY_FILE_EVICT, file, &evicted);
}

int forebay_file_statistics(int64_t file, char *into, uint64_t size, uint64_t *length) {
    uint64_t ignored = 0;
    struct forebay_text text = {into, size, length != NULL ? length : &ignored};
    return of_file(FOREBAY_FILE_STATISTICS, file, &text);
}
