// forebay's own requests for calls with an event set: a background transfer or, in Async VOL's place, any other call,
// already ended. The event set counts it and reports its failure (docs/migrating.md).
// Ownership: HDF5 owns a request from the call that returns it to `request_free`. Thread-safety: as HDF5's. Blocking:
// `wait` and `end` of a transfer. Source: HDF5 reference manual, H5VL_request_class_t.
#pragma once

#include <cstdint>
#include <memory>

#include "hdf5/host/host.h"
#include "stage/async_requests.h"

namespace forebay::hdf5 {

class OwnRequest {
  public:
    OwnRequest() = default;
    virtual ~OwnRequest() = default;
    OwnRequest(const OwnRequest&) = delete;
    OwnRequest& operator=(const OwnRequest&) = delete;

    [[nodiscard]] virtual H5VL_request_status_t wait(std::uint64_t timeout_ns) = 0;
    virtual H5VL_request_status_t cancel() = 0;
    // Returns the error stack of a failure, which the caller closes. Keeps the thread's own stack.
    [[nodiscard]] virtual hid_t error_stack() = 0;
    [[nodiscard]] virtual std::uint64_t begin_us() const = 0;   // since 1970
    [[nodiscard]] virtual std::uint64_t took_ns() const = 0;
    virtual void end() noexcept {}   // stops the work, if any
};

class BackgroundTransfer final : public OwnRequest {
  public:
    // Call this before any other function.
    void follow(std::shared_ptr<stage::AsyncRequest> transfer) noexcept { transfer_ = std::move(transfer); }
    H5VL_request_status_t wait(std::uint64_t timeout_ns) override;
    H5VL_request_status_t cancel() override;
    hid_t error_stack() override;
    [[nodiscard]] std::uint64_t begin_us() const override { return transfer_->begin_ns() / 1000; }
    [[nodiscard]] std::uint64_t took_ns() const override { return transfer_->took_ns(); }
    // Waits, because a running transfer writes to the program's memory, which may be freed next.
    void end() noexcept override;

  private:
    std::shared_ptr<stage::AsyncRequest> transfer_;
};

class EndedCall final : public OwnRequest {
  public:
    // `errors` is the error stack of a failure, which this object owns, or H5I_INVALID_HID for success.
    EndedCall(hid_t errors, std::uint64_t begin_ns, std::uint64_t took_ns) noexcept
        : errors_(errors), failed_(errors >= 0), begin_ns_(begin_ns), took_ns_(took_ns) {}
    ~EndedCall() override;
    H5VL_request_status_t wait(std::uint64_t timeout_ns) override;
    H5VL_request_status_t cancel() override;
    hid_t error_stack() override;
    [[nodiscard]] std::uint64_t begin_us() const override { return begin_ns_ / 1000; }
    [[nodiscard]] std::uint64_t took_ns() const override { return took_ns_; }

  private:
    hid_t errors_;
    const bool failed_;
    const std::uint64_t begin_ns_, took_ns_;
};

}   // namespace forebay::hdf5
