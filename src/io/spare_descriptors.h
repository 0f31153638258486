// Descriptors that forebay keeps open to save opening a file again and again, and can do without.
//
// A program may use every descriptor that its limit (ulimit -n) allows, and none of its own calls may fail because of
// forebay. So the process keeps few of them: a 128th of the limit, 128 at most. All are given back once half of the
// numbers are in use, and when an open fails for want of one. A file without a descriptor is opened for each call.
//
// Thread-safety: all calls from any thread, in a forked child too. Nothing blocks but closing what is given back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "base/status.h"

namespace forebay::io {

class SpareDescriptor {
  public:
    // From now on its file is opened for each call. Called while the list is locked: calls nothing of it.
    virtual void give_back() noexcept = 0;

  protected:
    ~SpareDescriptor() = default;
};

class SpareDescriptors {
  public:
    static SpareDescriptors& of_process() noexcept;

    // Whether one more may be kept.
    [[nodiscard]] bool has_room() noexcept;
    // `holder` has a descriptor, and is told when it is to give it back. False: it may not keep it.
    [[nodiscard]] bool keep(SpareDescriptor& holder) noexcept;
    // On return `holder` is not called any more.
    void forget(SpareDescriptor& holder) noexcept;
    // The program is about to need a descriptor: gives all back if they are scarce.
    void look() noexcept;
    // The program opens a file: looks, at one of eight.
    void note_open() noexcept;
    // True: there were some, so an open that has failed may be tried again.
    bool give_all_back() noexcept;
    [[nodiscard]] std::size_t kept() const noexcept { return count_.load(std::memory_order_relaxed); }

  private:
    SpareDescriptors();
    bool give_all_back_locked() noexcept;

    static constexpr std::size_t kMax = 128;
    static constexpr std::uint64_t kOpensBetweenLooks = 8;
    std::mutex mutex_;
    std::array<SpareDescriptor*, kMax> holders_{};
    std::atomic<std::size_t> count_{0};
    std::atomic<std::uint64_t> opens_{0};
};

// An open has failed because the process, or the machine, has no descriptor left.
[[nodiscard]] bool lacks_descriptors(const Status& status) noexcept;

}   // namespace forebay::io
