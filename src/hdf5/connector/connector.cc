#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/info.h"
#include "hdf5/connector/operations.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

// The capabilities of the native connector of HDF5 1.14 and 2.x, whose files these are, and asynchronous calls.
constexpr std::uint64_t kCapabilities = H5VL_CAP_FLAG_ASYNC | H5VL_CAP_FLAG_NATIVE_FILES | H5VL_CAP_FLAG_ATTR_BASIC |
                                        H5VL_CAP_FLAG_ATTR_MORE | H5VL_CAP_FLAG_DATASET_BASIC |
                                        H5VL_CAP_FLAG_DATASET_MORE | H5VL_CAP_FLAG_FILE_BASIC |
                                        H5VL_CAP_FLAG_FILE_MORE | H5VL_CAP_FLAG_GROUP_BASIC | H5VL_CAP_FLAG_GROUP_MORE |
                                        H5VL_CAP_FLAG_LINK_BASIC | H5VL_CAP_FLAG_LINK_MORE |
                                        H5VL_CAP_FLAG_OBJECT_BASIC | H5VL_CAP_FLAG_OBJECT_MORE |
                                        H5VL_CAP_FLAG_REF_BASIC | H5VL_CAP_FLAG_REF_MORE | H5VL_CAP_FLAG_OBJ_REF |
                                        H5VL_CAP_FLAG_REG_REF | H5VL_CAP_FLAG_ATTR_REF |
                                        H5VL_CAP_FLAG_STORED_DATATYPES | H5VL_CAP_FLAG_CREATION_ORDER |
                                        H5VL_CAP_FLAG_ITERATE | H5VL_CAP_FLAG_STORAGE_SIZE | H5VL_CAP_FLAG_BY_IDX |
                                        H5VL_CAP_FLAG_GET_PLIST | H5VL_CAP_FLAG_FLUSH_REFRESH |
                                        H5VL_CAP_FLAG_EXTERNAL_LINKS | H5VL_CAP_FLAG_HARD_LINKS |
                                        H5VL_CAP_FLAG_SOFT_LINKS | H5VL_CAP_FLAG_UD_LINKS | H5VL_CAP_FLAG_TRACK_TIMES |
                                        H5VL_CAP_FLAG_MOUNT | H5VL_CAP_FLAG_FILTERS | H5VL_CAP_FLAG_FILL_VALUES;

herr_t connector_initialize(hid_t) {
    // A search soon ends the connector again. If it finds a file, the open registers the operations.
    if (is_search_after_failure()) return 0;
    return guard("connector_initialize", [] { return register_operations() ? 0 : -1; });
}

herr_t connector_terminate() {
    return guard("connector_terminate", []() -> herr_t {
        forget_operations();
        Session::get().forget_connectors();
        return 0;
    });
}

herr_t connector_optional(void* object, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    return forward("connector_optional", object, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLoptional(under, connector, args, transfer, request);
    });
}

H5VL_class_t make_class() {
    H5VL_class_t made{};
    made.version = H5VL_VERSION;
    made.value = identity().value;
    made.name = identity().name;
    made.conn_version = 0;
    made.cap_flags = kCapabilities;
    made.initialize = connector_initialize;
    made.terminate = connector_terminate;
    made.info_cls = {sizeof(ConnectorInfo), info_copy, info_compare, info_free, info_to_text, info_from_text};
    made.wrap_cls = wrap_callbacks();
    made.attr_cls = attribute_callbacks();
    made.dataset_cls = dataset_callbacks();
    made.datatype_cls = datatype_callbacks();
    made.file_cls = file_callbacks();
    made.group_cls = group_callbacks();
    made.link_cls = link_callbacks();
    made.object_cls = object_callbacks();
    made.introspect_cls = introspect_callbacks();
    made.request_cls = request_callbacks();
    made.blob_cls = blob_callbacks();
    made.token_cls = token_callbacks();
    made.optional = connector_optional;
    return made;
}

}   // namespace

const H5VL_class_t& connector_class() {
    static const H5VL_class_t made = make_class();
    return made;
}

}   // namespace forebay::hdf5
