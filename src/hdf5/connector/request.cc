#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/operations.h"

// Requests of event sets: forebay's own, and those of a connector beneath. HDF5's own connector makes none.

namespace forebay::hdf5 {

namespace {

using stage::AsyncRequest;

Request& request_of(void* request) noexcept { return *static_cast<Request*>(as_object(request)); }

H5VL_request_status_t status_of(AsyncRequest::State state) noexcept {
    switch (state) {
        case AsyncRequest::State::kDone: return H5VL_REQUEST_STATUS_SUCCEED;
        case AsyncRequest::State::kFailed: return H5VL_REQUEST_STATUS_FAIL;
        case AsyncRequest::State::kCanceled: return H5VL_REQUEST_STATUS_CANCELED;
        case AsyncRequest::State::kWaiting:
        case AsyncRequest::State::kRunning: break;
    }
    return H5VL_REQUEST_STATUS_IN_PROGRESS;
}

// `own(request)` for one of forebay's, else `beneath(request, connector)`.
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
        [&](AsyncRequest& own) -> herr_t {
            *status = status_of(own.wait(timeout_ns));
            return 0;
        },
        [&](void* under, hid_t connector) { return host().H5VLrequest_wait(under, connector, timeout_ns, status); });
}

// HDF5 may be called by the program's thread only, so the call waits; no event set makes it.
herr_t request_notify(void* request, H5VL_request_notify_t notify, void* context) {
    return with_request(
        "request_notify", request,
        [&](AsyncRequest& own) { return notify(context, status_of(own.wait(AsyncRequest::kForever))); },
        [&](void* under, hid_t connector) { return host().H5VLrequest_notify(under, connector, notify, context); });
}

herr_t request_cancel(void* request, H5VL_request_status_t* status) {
    return with_request(
        "request_cancel", request,
        [&](AsyncRequest& own) -> herr_t {
            *status = status_of(own.cancel());
            if (*status == H5VL_REQUEST_STATUS_IN_PROGRESS) *status = H5VL_REQUEST_STATUS_CANT_CANCEL;
            return 0;
        },
        [&](void* under, hid_t connector) { return host().H5VLrequest_cancel(under, connector, status); });
}

// A stack of its own: what is on the thread's stack stays there.
hid_t error_stack_of(const AsyncRequest& request) {
    const ErrorStackKeeper keeper;
    const bool reads = request.is_read();
    push_error(reads ? "asynchronous read" : "asynchronous write", host().H5E_IO_g,
               reads ? host().H5E_READERROR_g : host().H5E_WRITEERROR_g, request.failure());
    return host().H5Eget_current_stack();
}

herr_t request_specific(void* request, H5VL_request_specific_args_t* args) {
    return with_request(
        "request_specific", request,
        [&](AsyncRequest& own) -> herr_t {
            switch (args->op_type) {
                case H5VL_REQUEST_GET_ERR_STACK:
                    args->args.get_err_stack.err_stack_id = error_stack_of(own);
                    return args->args.get_err_stack.err_stack_id < 0 ? -1 : 0;
                case H5VL_REQUEST_GET_EXEC_TIME:
                    *args->args.get_exec_time.exec_ts = own.begin_ns() / 1000;
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
        [&](AsyncRequest&) -> herr_t {
            if (operation_of(H5VL_SUBCLS_REQUEST, args->op_type)) return 0;   // all of those do nothing
            push_error("request_optional", host().H5E_VOL_g, host().H5E_UNSUPPORTED_g, "unknown operation");
            return -1;
        },
        [&](void* under, hid_t connector) { return host().H5VLrequest_optional(under, connector, args); });
}

// An event set releases every request by this call, whatever has become of it (H5ES__event_free). One that has not
// ended would go on writing to the program's memory, which may be gone then.
herr_t request_free(void* request) {
    const herr_t result = with_request(
        "request_free", request,
        [&](AsyncRequest& own) -> herr_t {
            (void)own.cancel();
            (void)own.wait(AsyncRequest::kForever);
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
