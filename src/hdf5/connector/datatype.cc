#include "hdf5/connector/callbacks.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

void* datatype_commit(void* object, const H5VL_loc_params_t* location, const char* name, hid_t type,
                      hid_t link_creation, hid_t creation, hid_t access, hid_t transfer, void** request) {
    // HDF5 asks the new type about itself at once, here and below.
    return forward_new(
        "datatype_commit", object, {location, access}, request,
        [&](void* under, hid_t connector) {
            return host().H5VLdatatype_commit(under, location, connector, name, type, link_creation, creation, access,
                                              transfer, request);
        },
        Failure::kAtOnce);
}

void* datatype_open(void* object, const H5VL_loc_params_t* location, const char* name, hid_t access, hid_t transfer,
                    void** request) {
    return forward_new(
        "datatype_open", object, {location, access}, request,
        [&](void* under, hid_t connector) {
            return host().H5VLdatatype_open(under, location, connector, name, access, transfer, request);
        },
        Failure::kAtOnce);
}

herr_t datatype_get(void* type, H5VL_datatype_get_args_t* args, hid_t transfer, void** request) {
    return forward("datatype_get", type, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLdatatype_get(under, connector, args, transfer, request);
    });
}

herr_t datatype_specific(void* type, H5VL_datatype_specific_args_t* args, hid_t transfer, void** request) {
    return forward(
        "datatype_specific", type, {}, request,
        [&](void* under, hid_t connector) {
            if (args->op_type == H5VL_DATATYPE_REFRESH) Session::get().note_refresh();
            return host().H5VLdatatype_specific(under, connector, args, transfer, request);
        },
        CallKind::kObjectFlush);   // its only operations are flush and refresh
}

herr_t datatype_optional(void* type, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    return forward("datatype_optional", type, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLdatatype_optional(under, connector, args, transfer, request);
    });
}

herr_t datatype_close(void* type, hid_t transfer, void** request) {
    return forward_close("datatype_close", type, request, [&](void* under, hid_t connector) {
        return host().H5VLdatatype_close(under, connector, transfer, request);
    });
}

}   // namespace

H5VL_datatype_class_t datatype_callbacks() {
    return {datatype_commit, datatype_open, datatype_get, datatype_specific, datatype_optional, datatype_close};
}

}   // namespace forebay::hdf5
