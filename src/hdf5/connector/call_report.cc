#include "hdf5/connector/call_report.h"

#include "base/clock.h"
#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

CallReport::CallReport(const Origin& origin, void** request, Failure failure) noexcept
    : request_(origin.fails_in_event_set ? request : nullptr), failure_(failure) {
    if (request_ == nullptr) return;
    begin_ns_ = monotonic_ns();
    quiet_.emplace();
}

// The request refers to no file: HDF5 leaves it in event sets that a program never waits for.
bool CallReport::add_request(bool failed) const noexcept {
    hid_t errors = H5I_INVALID_HID;
    try {
        auto made = std::make_unique<Request>();
        const std::uint64_t took_ns = monotonic_ns() - begin_ns_;
        if (failed) errors = host().H5Eget_current_stack();   // clears the current stack
        if (failed && errors < 0) return false;
        made->own = std::make_unique<EndedCall>(errors, realtime_ns() - took_ns, took_ns);
        *request_ = static_cast<Object*>(made.release());
        return true;
    } catch (...) {
        if (errors >= 0) (void)host().H5Eset_current_stack(errors);
        return false;
    }
}

herr_t CallReport::of(herr_t result) const noexcept {
    if (request_ == nullptr || *request_ != nullptr) return result;
    if (result >= 0) (void)add_request(false);
    else if (failure_ == Failure::kInEventSet && add_request(true)) return 0;
    return result;
}

void* CallReport::of_new(void* made, const std::shared_ptr<Origin>& origin) const noexcept {
    if (request_ == nullptr || *request_ != nullptr) return made;
    if (made != nullptr) {
        (void)add_request(false);
        return made;
    }
    if (failure_ == Failure::kAtOnce) return nullptr;
    Object* const nothing = new (std::nothrow) Object{nullptr, origin};
    if (nothing == nullptr || add_request(true)) return nothing;
    delete nothing;
    return nullptr;
}

}   // namespace forebay::hdf5
