// What this thread's HDF5 call is about, for the drivers, which see bytes only.
//
// Lives on the stack of a callback. Nests. Thread-safe: each thread has its own.
#pragma once

namespace forebay::hdf5 {

template <class Kind>
class CallScope {
  public:
    explicit CallScope(bool applies = true) noexcept : outer_(active_) { active_ = active_ || applies; }
    ~CallScope() { active_ = outer_; }
    CallScope(const CallScope&) = delete;
    CallScope& operator=(const CallScope&) = delete;

    [[nodiscard]] static bool is_active() noexcept { return active_; }

  private:
    static inline thread_local bool active_ = false;
    bool outer_;
};

// Flushing or refreshing one object (H5Dflush and its kin) writes its metadata and then flushes the driver. What
// the file holds then is no consistent whole (the superblock need not cover the object), so it is no commit: a
// recovered file would be worse off than with the last flush of the whole.
using ObjectFlush = CallScope<struct FlushesObject>;

// Allocating: some ranks fill what others will write. With several nodes such bytes go straight to the file,
// so that they are there when HDF5's barrier after filling lets the others go on.
using Allocation = CallScope<struct Allocates>;

}   // namespace forebay::hdf5
