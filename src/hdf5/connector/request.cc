#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/operations.h"

// Requests of event sets: forebay's own, and those of a connector beneath. HDF5's own connector makes none.

namespace forebay::hdf5 {

namespace {

Request& request_of(void* request) noexcept { return *static_cast<Request*>(as_object(request)); }

template <class Own, class Beneath>
herr_t with_request(const char* function, void* request, Own&& own, Beneath&& beneath) noexcept {
    return guard(function, [&]() -> herr_t {
        Request& known = request_of(request);
        return known.own != nullptr ? own(*known.own) : beneath(known.under, known.origin->under_connector);
    });
}

herr_t request_wait(void* request, std::uint64_t timeout_ns, H5VL_request_status_t* status) {
    return with_request(
        "request_wait", request,
        [&](OwnRequest& own) -> herr_t {
            *status = own.wait(timeout_ns);
            return 0;
        },
        [&](void* under, hid_t connector) { return host().H5VLrequest_wait(under, connector, timeout_ns, status); });
}

// Waits, because only the program's thread may call HDF5. Event sets do not make this call.
herr_t request_notify(void* request, H5VL_request_notify_t notify, void* context) {
    return with_request(
        "request_notify", request,
        [&](OwnRequest& own) { return notify(context, own.wait(stage::AsyncRequest::kForever)); },
        [&](void* under, hid_t connector) { return host().H5VLrequest_notify(under, connector, notify, context); });
}

herr_t request_cancel(void* request, H5VL_request_status_t* status) {
    return with_request(
        "request_cancel", request,
        [&](OwnRequest& own) -> herr_t {
            *status = own.cancel();
            return 0;
        },
        [&](void* under, hid_t connector) { return host().H5VLrequest_cancel(under, connector, status); });
}

herr_t request_specific(void* request, H5VL_request_specific_args_t* args) {
    return with_request(
        "request_specific", request,
        [&](OwnRequest& own) -> herr_t {
            switch (args->op_type) {
                case H5VL_REQUEST_GET_ERR_STACK:
                    args->args.get_err_stack.err_stack_id = own.error_stack();
                    return args->args.get_err_stack.err_stack_id < 0 ? -1 : 0;
                case H5VL_REQUEST_GET_EXEC_TIME:
                    *args->args.get_exec_time.exec_ts = own.begin_us();
                    *args->args.get_exec_time.exec_time = own.took_ns();
                    return 0;
                default: break;
            }
            push_error("request_specific", host().H5E_VOL_g, host().H5E_UNSUPPORTED_g, "unknown operation");
            return -1;
        },
        [&](void* under, hid_t connector) { return host().H5VLrequest_specific(under, connector, args); });
}

herr_t request_optional(void* request, H5VL_optional_args_t* args) {
    return with_request(
        "request_optional", request,
        [&](OwnRequest&) -> herr_t {
            if (operation_of(H5VL_SUBCLS_REQUEST, args->op_type)) return 0;   // none of them has an effect
            push_error("request_optional", host().H5E_VOL_g, host().H5E_UNSUPPORTED_g, "unknown operation");
            return -1;
        },
        [&](void* under, hid_t connector) { return host().H5VLrequest_optional(under, connector, args); });
}

// An event set releases every request by this call, in any state (H5ES__event_free).
herr_t request_free(void* request) {
    const herr_t result = with_request(
        "request_free", request,
        [&](OwnRequest& own) -> herr_t {
            own.end();
            return 0;
        },
        [&](void* under, hid_t connector) { return host().H5VLrequest_free(under, connector); });
    if (result >= 0) delete &request_of(request);
    return result;
}

}   // namespace

H5VL_request_class_t request_callbacks() {
    return {request_wait, request_notify, request_cancel, request_specific, request_optional, request_free};
}

}   // namespace forebay::hdf5
