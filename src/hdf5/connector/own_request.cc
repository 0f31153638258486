#include "hdf5/connector/own_request.h"

#include "hdf5/host/guard.h"

namespace forebay::hdf5 {

namespace {

using stage::AsyncRequest;

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

}   // namespace

H5VL_request_status_t BackgroundTransfer::wait(std::uint64_t timeout_ns) {
    return status_of(transfer_->wait(timeout_ns));
}

H5VL_request_status_t BackgroundTransfer::cancel() {
    const H5VL_request_status_t status = status_of(transfer_->cancel());
    return status == H5VL_REQUEST_STATUS_IN_PROGRESS ? H5VL_REQUEST_STATUS_CANT_CANCEL : status;
}

hid_t BackgroundTransfer::error_stack() {
    const ErrorStackKeeper keeper;
    push_error("asynchronous read", host().H5E_IO_g, host().H5E_READERROR_g, transfer_->failure());
    return host().H5Eget_current_stack();
}

void BackgroundTransfer::end() noexcept {
    (void)transfer_->cancel();
    (void)transfer_->wait(AsyncRequest::kForever);
}

EndedCall::~EndedCall() {
    if (errors_ >= 0) (void)host().H5Idec_ref(errors_);
}

H5VL_request_status_t EndedCall::wait(std::uint64_t) {
    return failed_ ? H5VL_REQUEST_STATUS_FAIL : H5VL_REQUEST_STATUS_SUCCEED;
}

H5VL_request_status_t EndedCall::cancel() { return wait(0); }

// The program and its function for a request's end may ask; each gets a copy. H5Eset_current_stack takes its argument.
hid_t EndedCall::error_stack() {
    const ErrorStackKeeper keeper;
    if (errors_ < 0 || host().H5Iinc_ref(errors_) < 0) return H5I_INVALID_HID;
    if (host().H5Eset_current_stack(errors_) >= 0) return host().H5Eget_current_stack();
    (void)host().H5Idec_ref(errors_);
    return H5I_INVALID_HID;
}

}   // namespace forebay::hdf5
