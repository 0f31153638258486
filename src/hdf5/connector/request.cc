#include "hdf5/connector/callbacks.h"

// Asynchronous requests. The native connector makes none; another one beneath may.

namespace forebay::hdf5 {

namespace {

template <class Call>
herr_t with_request(const char* function, void* request, Call&& call) noexcept {
    return guard(function, [&]() -> herr_t {
        return call(as_object(request)->under, as_object(request)->origin->under_connector);
    });
}

herr_t request_wait(void* request, std::uint64_t timeout_ns, H5VL_request_status_t* status) {
    return with_request("request_wait", request, [&](void* under, hid_t connector) {
        return host().H5VLrequest_wait(under, connector, timeout_ns, status);
    });
}

herr_t request_notify(void* request, H5VL_request_notify_t notify, void* context) {
    return with_request("request_notify", request, [&](void* under, hid_t connector) {
        return host().H5VLrequest_notify(under, connector, notify, context);
    });
}

herr_t request_cancel(void* request, H5VL_request_status_t* status) {
    return with_request("request_cancel", request, [&](void* under, hid_t connector) {
        return host().H5VLrequest_cancel(under, connector, status);
    });
}

herr_t request_specific(void* request, H5VL_request_specific_args_t* args) {
    return with_request("request_specific", request, [&](void* under, hid_t connector) {
        return host().H5VLrequest_specific(under, connector, args);
    });
}

herr_t request_optional(void* request, H5VL_optional_args_t* args) {
    return with_request("request_optional", request, [&](void* under, hid_t connector) {
        return host().H5VLrequest_optional(under, connector, args);
    });
}

// An event set releases every request by this call, whatever has become of it (H5ES__event_free).
herr_t request_free(void* request) {
    const herr_t result = with_request("request_free", request, [&](void* under, hid_t connector) {
        return host().H5VLrequest_free(under, connector);
    });
    if (result >= 0) delete as_object(request);
    return result;
}

}   // namespace

H5VL_request_class_t request_callbacks() {
    return {request_wait, request_notify, request_cancel, request_specific, request_optional, request_free};
}

}   // namespace forebay::hdf5
