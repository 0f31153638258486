#include "hdf5/connector/callbacks.h"

namespace forebay::hdf5 {

namespace {

herr_t blob_put(void* object, const void* buffer, std::size_t size_bytes, void* blob, void* context) {
    return forward("blob_put", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLblob_put(under, connector, buffer, size_bytes, blob, context);
    });
}

herr_t blob_get(void* object, const void* blob, void* buffer, std::size_t size_bytes, void* context) {
    return forward("blob_get", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLblob_get(under, connector, blob, buffer, size_bytes, context);
    });
}

herr_t blob_specific(void* object, void* blob, H5VL_blob_specific_args_t* args) {
    return forward("blob_specific", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLblob_specific(under, connector, blob, args);
    });
}

herr_t blob_optional(void* object, void* blob, H5VL_optional_args_t* args) {
    return forward("blob_optional", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLblob_optional(under, connector, blob, args);
    });
}

}   // namespace

H5VL_blob_class_t blob_callbacks() { return {blob_put, blob_get, blob_specific, blob_optional}; }

}   // namespace forebay::hdf5
