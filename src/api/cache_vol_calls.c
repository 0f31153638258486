/* Cache VOL's calls: each finds its operation by name and hands HDF5 the arguments that
 * src/hdf5/connector/operations.cc expects. */
#define NEW_H5API_IMPL
#include "cache_new_h5api.h"

#include <H5VLconnector.h>
#include <stddef.h>

#include "H5VLcache_ext.h"
#include "hdf5_calls.h"

struct prefetch_arguments {
    hid_t file_space_id;
};
struct read_arguments {
    hid_t mem_type_id, mem_space_id, file_space_id;
    void *buf;
};
struct dataset_create_arguments {
    const char *name;
};
struct file_create_arguments {
    hid_t fapl_id;
    hsize_t size;
    cache_purpose_t purpose;
    cache_duration_t duration;
};
struct query_arguments {
    hsize_t *size;
};

/* The place of the program's call, and its event set. */
struct place {
    const char *file, *function;
    unsigned line;
    hid_t event_set;
};
#define PLACE(event_set) \
    (struct place) { app_file, app_func, app_line, event_set }

static herr_t dataset_operation(struct place at, const char *name, hid_t dataset, void *arguments, hid_t list) {
    H5VL_optional_args_t call = {-1, arguments};
    if (H5VLfind_opt_operation(H5VL_SUBCLS_DATASET, name, &call.op_type) < 0) return -1;
    return H5VLdataset_optional_op_wrap(at.file, at.function, at.line, dataset, &call, list, at.event_set);
}

static herr_t file_operation(struct place at, const char *name, hid_t file, void *arguments) {
    H5VL_optional_args_t call = {-1, arguments};
    if (H5VLfind_opt_operation(H5VL_SUBCLS_FILE, name, &call.op_type) < 0) return -1;
    return H5VLfile_optional_op_wrap(at.file, at.function, at.line, file, &call, H5P_DATASET_XFER_DEFAULT,
                                     at.event_set);
}

static herr_t read_operation(struct place at, const char *name, hid_t dataset, struct read_arguments arguments,
                             hid_t list) {
    return dataset_operation(at, name, dataset, &arguments, list);
}

#define CALLER const char *app_file, const char *app_func, unsigned app_line

/* ---- datasets ------------------------------------------------------------------------------------- */

herr_t H5Dmmap_remap(CALLER, hid_t dset_id) {
    return dataset_operation(PLACE(H5ES_NONE), "anl.gov.cache.dmmap_remap", dset_id, NULL, H5P_DATASET_XFER_DEFAULT);
}

herr_t H5Dprefetch_async(CALLER, hid_t dset_id, hid_t file_space_id, hid_t dxpl_id, hid_t es_id) {
    struct prefetch_arguments arguments = {file_space_id};
    return dataset_operation(PLACE(es_id), "anl.gov.cache.dprefetch", dset_id, &arguments, dxpl_id);
}

herr_t H5Dprefetch(CALLER, hid_t dset_id, hid_t file_space_id, hid_t dxpl_id) {
    return H5Dprefetch_async(app_file, app_func, app_line, dset_id, file_space_id, dxpl_id, H5ES_NONE);
}

herr_t H5Dread_to_cache_async(CALLER, hid_t dset_id, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id,
                              hid_t dxpl_id, void *buf, hid_t es_id) {
    return read_operation(PLACE(es_id), "anl.gov.cache.dread_to_cache", dset_id,
                          (struct read_arguments){mem_type_id, mem_space_id, file_space_id, buf}, dxpl_id);
}

herr_t H5Dread_to_cache(CALLER, hid_t dset_id, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id,
                        hid_t dxpl_id, void *buf) {
    return H5Dread_to_cache_async(app_file, app_func, app_line, dset_id, mem_type_id, mem_space_id, file_space_id,
                                  dxpl_id, buf, H5ES_NONE);
}

herr_t H5Dread_from_cache_async(CALLER, hid_t dset_id, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id,
                                hid_t dxpl_id, void *buf, hid_t es_id) {
    return read_operation(PLACE(es_id), "anl.gov.cache.dread_from_cache", dset_id,
                          (struct read_arguments){mem_type_id, mem_space_id, file_space_id, buf}, dxpl_id);
}

herr_t H5Dread_from_cache(CALLER, hid_t dset_id, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id,
                          hid_t dxpl_id, void *buf) {
    return H5Dread_from_cache_async(app_file, app_func, app_line, dset_id, mem_type_id, mem_space_id, file_space_id,
                                    dxpl_id, buf, H5ES_NONE);
}

herr_t H5Dcache_create_async(CALLER, hid_t dset_id, const char *name, hid_t es_id) {
    struct dataset_create_arguments arguments = {name};
    return dataset_operation(PLACE(es_id), "anl.gov.cache.dcache_create", dset_id, &arguments,
                             H5P_DATASET_XFER_DEFAULT);
}

herr_t H5Dcache_create(CALLER, hid_t dset_id, const char *name) {
    return H5Dcache_create_async(app_file, app_func, app_line, dset_id, name, H5ES_NONE);
}

herr_t H5Dcache_remove_async(CALLER, hid_t dset_id, hid_t es_id) {
    return dataset_operation(PLACE(es_id), "anl.gov.cache.dcache_remove", dset_id, NULL, H5P_DATASET_XFER_DEFAULT);
}

herr_t H5Dcache_remove(CALLER, hid_t dset_id) {
    return H5Dcache_remove_async(app_file, app_func, app_line, dset_id, H5ES_NONE);
}

herr_t H5Dcache_async_op_pause(CALLER, hid_t dset_id) {
    return dataset_operation(PLACE(H5ES_NONE), "anl.gov.dcache.async.op.pause", dset_id, NULL,
                             H5P_DATASET_XFER_DEFAULT);
}

herr_t H5Dcache_async_op_start(CALLER, hid_t dset_id) {
    return dataset_operation(PLACE(H5ES_NONE), "anl.gov.dcache.async.op.start", dset_id, NULL,
                             H5P_DATASET_XFER_DEFAULT);
}

/* ---- files ---------------------------------------------------------------------------------------- */

herr_t H5Fcache_create_async(CALLER, hid_t file_id, hid_t fapl_id, hsize_t size, cache_purpose_t purpose,
                             cache_duration_t duration, hid_t es_id) {
    struct file_create_arguments arguments = {fapl_id, size, purpose, duration};
    return file_operation(PLACE(es_id), "anl.gov.fcache.create", file_id, &arguments);
}

herr_t H5Fcache_create(CALLER, hid_t file_id, hid_t fapl_id, hsize_t size, cache_purpose_t purpose,
                       cache_duration_t duration) {
    return H5Fcache_create_async(app_file, app_func, app_line, file_id, fapl_id, size, purpose, duration, H5ES_NONE);
}

herr_t H5Freserve_cache(CALLER, hid_t file_id, hid_t dxpl_id, hsize_t size, cache_purpose_t purpose,
                        cache_duration_t duration) {
    (void)dxpl_id;
    return H5Fcache_create(app_file, app_func, app_line, file_id, H5P_DEFAULT, size, purpose, duration);
}

herr_t H5Fquery_cache(CALLER, hid_t file_id, hid_t dxpl_id, hsize_t *size) {
    (void)dxpl_id;
    if (size == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no place for the size");
    struct query_arguments arguments = {size};
    return file_operation(PLACE(H5ES_NONE), "forebay.file.query", file_id, &arguments);
}

herr_t H5Fcache_remove_async(CALLER, hid_t file_id, hid_t es_id) {
    return file_operation(PLACE(es_id), "anl.gov.fcache.remove", file_id, NULL);
}

herr_t H5Fcache_remove(CALLER, hid_t file_id) {
    return H5Fcache_remove_async(app_file, app_func, app_line, file_id, H5ES_NONE);
}

herr_t H5Fcache_async_op_pause(CALLER, hid_t file_id) {
    return file_operation(PLACE(H5ES_NONE), "anl.gov.fcache.async.op.pause", file_id, NULL);
}

herr_t H5Fcache_async_op_start(CALLER, hid_t file_id) {
    return file_operation(PLACE(H5ES_NONE), "anl.gov.fcache.async.op.start", file_id, NULL);
}

herr_t H5Fasync_pause(CALLER, hid_t file_id) {
    return file_operation(PLACE(H5ES_NONE), "anl.gov.fcache.async.op.pause", file_id, NULL);
}

herr_t H5Fasync_start(CALLER, hid_t file_id) {
    return file_operation(PLACE(H5ES_NONE), "anl.gov.fcache.async.op.start", file_id, NULL);
}

herr_t H5Fcache_async_close_set(CALLER, hid_t file_id) {
    return file_operation(PLACE(H5ES_NONE), "anl.gov.fcache.async.close.set", file_id, NULL);
}

herr_t H5Fcache_async_close_wait(CALLER, hid_t file_id) {
    return file_operation(PLACE(H5ES_NONE), "anl.gov.fcache.async.close.wait", file_id, NULL);
}

/* ---- the connector -------------------------------------------------------------------------------- */

herr_t async_close_start(void) { return 0; }

herr_t set_close_async(hbool_t on) {
    (void)on;
    return 0;
}

herr_t async_close_wait(void) {
    const ssize_t count = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_FILE);
    if (count <= 0) return count < 0 ? -1 : 0;
    hid_t *files = malloc((size_t)count * sizeof *files);
    if (files == NULL) return FOREBAY_FAIL(H5E_NOSPACE_g, "out of memory");
    const ssize_t got = H5Fget_obj_ids(H5F_OBJ_ALL, H5F_OBJ_FILE, (size_t)count, files);
    herr_t result = got < 0 ? -1 : 0;
    for (ssize_t i = 0; i < got; ++i)
        if (H5Fcache_async_close_wait(__FILE__, __func__, __LINE__, files[i]) < 0) result = -1;
    free(files);
    return result;
}
