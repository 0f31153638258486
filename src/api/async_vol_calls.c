/* Async VOL's calls: each finds its operation by name and hands it to HDF5, for src/hdf5/connector/operations.cc. */
#include <H5VLconnector.h>
#include <H5VLconnector_passthru.h>

#include "h5_async_lib.h"
#include "hdf5_calls.h"

struct delay_arguments {
    uint64_t delay_time;
};

static herr_t file_operation(const char *name, hid_t file, void *arguments, hid_t list) {
    H5VL_optional_args_t call = {-1, arguments};
    if (H5VLfind_opt_operation(H5VL_SUBCLS_FILE, name, &call.op_type) < 0) return -1;
    return H5VLfile_optional_op(file, &call, list, H5ES_NONE);
}

static herr_t dataset_operation(const char *name, hid_t dataset, void *arguments, hid_t list) {
    H5VL_optional_args_t call = {-1, arguments};
    if (H5VLfind_opt_operation(H5VL_SUBCLS_DATASET, name, &call.op_type) < 0) return -1;
    return H5VLdataset_optional_op(dataset, &call, list, H5ES_NONE);
}

/* ---- files and datasets --------------------------------------------------------------------------- */

herr_t H5Fwait(hid_t file_id, hid_t dxpl_id) {
    return file_operation("gov.lbl.async.file.wait", file_id, NULL, dxpl_id);
}

herr_t H5Dwait(hid_t dset_id, hid_t dxpl_id) {
    return dataset_operation("gov.lbl.async.dataset.wait", dset_id, NULL, dxpl_id);
}

herr_t H5Fstart(hid_t file_id, hid_t dxpl_id) {
    return file_operation("gov.lbl.async.file.start", file_id, NULL, dxpl_id);
}

herr_t H5Dstart(hid_t dset_id, hid_t dxpl_id) {
    return dataset_operation("gov.lbl.async.dataset.start", dset_id, NULL, dxpl_id);
}

herr_t H5Fpause(hid_t file_id, hid_t dxpl_id) {
    return file_operation("gov.lbl.async.file.pause", file_id, NULL, dxpl_id);
}

herr_t H5Dpause(hid_t dset_id, hid_t dxpl_id) {
    return dataset_operation("gov.lbl.async.dataset.pause", dset_id, NULL, dxpl_id);
}

herr_t H5Fset_delay_time(hid_t file_id, hid_t dxpl_id, uint64_t time_us) {
    struct delay_arguments arguments = {time_us};
    return file_operation("gov.lbl.async.file.delay", file_id, &arguments, dxpl_id);
}

herr_t H5Dset_delay_time(hid_t dset_id, hid_t dxpl_id, uint64_t time_us) {
    struct delay_arguments arguments = {time_us};
    return dataset_operation("gov.lbl.async.dataset.delay", dset_id, &arguments, dxpl_id);
}

herr_t H5async_set_request_dep(void *request, void *parent_request) {
    return request != NULL && parent_request != NULL ? 0 : FOREBAY_FAIL(H5E_BADVALUE_g, "no request");
}

herr_t H5async_start(void *request) { return request != NULL ? 0 : FOREBAY_FAIL(H5E_BADVALUE_g, "no request"); }

/* ---- property lists ------------------------------------------------------------------------------- */

static herr_t set_property(hid_t list, hid_t class_id, const char *name, void *value, size_t size) {
    if (H5Pisa_class(list, class_id) <= 0) return FOREBAY_FAIL(H5E_BADTYPE_g, "not a property list of this class");
    const htri_t there = H5Pexist(list, name);
    if (there < 0) return -1;
    return there ? H5Pset(list, name, value) : H5Pinsert2(list, name, size, value, NULL, NULL, NULL, NULL, NULL, NULL);
}

/* An unset property is zero. */
static herr_t get_property(hid_t list, hid_t class_id, const char *name, void *value, size_t size) {
    if (value == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no place for the value");
    if (H5Pisa_class(list, class_id) <= 0) return FOREBAY_FAIL(H5E_BADTYPE_g, "not a property list of this class");
    const htri_t there = H5Pexist(list, name);
    if (there < 0) return -1;
    for (size_t i = 0; i < size; ++i) ((char *)value)[i] = 0;
    return there ? H5Pget(list, name, value) : 0;
}

herr_t H5Pset_fapl_disable_async_implicit(hid_t fapl, hbool_t is_disable) {
    return set_property(fapl, H5P_FILE_ACCESS, H5VL_ASYNC_DISABLE_IMPLICIT_NAME, &is_disable, sizeof is_disable);
}

herr_t H5Pget_fapl_disable_async_implicit(hid_t fapl, hbool_t *is_disable) {
    return get_property(fapl, H5P_FILE_ACCESS, H5VL_ASYNC_DISABLE_IMPLICIT_NAME, is_disable, sizeof *is_disable);
}

herr_t H5Pset_dxpl_disable_async_implicit(hid_t dxpl, hbool_t is_disable) {
    return set_property(dxpl, H5P_DATASET_XFER, H5VL_ASYNC_DISABLE_IMPLICIT_NAME, &is_disable, sizeof is_disable);
}

herr_t H5Pget_dxpl_disable_async_implicit(hid_t dxpl, hbool_t *is_disable) {
    return get_property(dxpl, H5P_DATASET_XFER, H5VL_ASYNC_DISABLE_IMPLICIT_NAME, is_disable, sizeof *is_disable);
}

herr_t H5Pset_dxpl_pause(hid_t dxpl, hbool_t is_pause) {
    return set_property(dxpl, H5P_DATASET_XFER, H5VL_ASYNC_PAUSE_NAME, &is_pause, sizeof is_pause);
}

herr_t H5Pget_dxpl_pause(hid_t dxpl, hbool_t *is_pause) {
    return get_property(dxpl, H5P_DATASET_XFER, H5VL_ASYNC_PAUSE_NAME, is_pause, sizeof *is_pause);
}

herr_t H5Pset_dxpl_delay(hid_t dxpl, uint64_t time_us) {
    return set_property(dxpl, H5P_DATASET_XFER, H5VL_ASYNC_DELAY_NAME, &time_us, sizeof time_us);
}

herr_t H5Pget_dxpl_delay(hid_t dxpl, uint64_t *time_us) {
    return get_property(dxpl, H5P_DATASET_XFER, H5VL_ASYNC_DELAY_NAME, time_us, sizeof *time_us);
}

/* ---- the connector -------------------------------------------------------------------------------- */

hid_t H5VL_async_register(void) { return H5VLregister_connector_by_name(H5VL_ASYNC_NAME, H5P_DEFAULT); }

herr_t H5Pset_vol_async(hid_t fapl_id) {
    const hid_t connector = H5VL_async_register();
    if (connector < 0) return -1;
    H5VL_async_info_t info = {H5I_INVALID_HID, NULL};
    herr_t result = H5Pget_vol_id(fapl_id, &info.under_vol_id);
    /* A list that has the connector has its text too. HDF5 2 gives each caller another identifier of one connector. */
    int differ = 0;
    if (result >= 0) result = H5VLcmp_connector_cls(&differ, info.under_vol_id, connector);
    if (result >= 0 && differ != 0) {
        result = H5Pget_vol_info(fapl_id, &info.under_vol_info);
        if (result >= 0) result = H5Pset_vol(fapl_id, connector, &info);
        if (info.under_vol_info != NULL && H5VLfree_connector_info(info.under_vol_id, info.under_vol_info) < 0)
            result = -1;
    }
    if (info.under_vol_id >= 0 && H5VLclose(info.under_vol_id) < 0) result = -1;
    return H5VLclose(connector) < 0 ? -1 : result;
}
