#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/info.h"
#include "hdf5/connector/operations.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

herr_t introspect_class(void* object, H5VL_get_conn_lvl_t level, const H5VL_class_t** result) {
    if (level == H5VL_GET_CONN_LVL_CURR) {
        *result = &connector_class();
        return 0;
    }
    return forward("introspect_class", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLintrospect_get_conn_cls(under, connector, level, result);
    });
}

// The capabilities of the connector that the text names, and asynchronous calls above HDF5's own (docs/migrating.md).
herr_t introspect_capabilities(const void* info, std::uint64_t* flags) {
    return guard("introspect_capabilities", [&]() -> herr_t {
        const Route& route = Session::get().route(text_of_info(info));
        if (host().H5VLintrospect_get_cap_flags(route.under_info, route.under_connector, flags) < 0) return -1;
        H5VL_class_value_t beneath = -1;
        if (host().H5VLget_value(route.under_connector, &beneath) >= 0 && beneath == H5_VOL_NATIVE)
            *flags |= H5VL_CAP_FLAG_ASYNC;
        return 0;
    });
}

herr_t introspect_optional(void* object, H5VL_subclass_t subclass, int operation, std::uint64_t* flags) {
    if (knows_operation(subclass, operation, *flags)) return 0;
    // HDF5 asks what else an open needs even if the file could not be opened.
    if (as_object(object)->under == nullptr) {
        *flags = 0;
        return 0;
    }
    return forward("introspect_optional", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLintrospect_opt_query(under, connector, subclass, operation, flags);
    });
}

}   // namespace

H5VL_introspect_class_t introspect_callbacks() {
    return {introspect_class, introspect_capabilities, introspect_optional};
}

}   // namespace forebay::hdf5
