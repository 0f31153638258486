// Descriptors that forebay keeps open to avoid repeated opens, but can do without. A program may use every descriptor
// of its limit (ulimit -n), and none of its calls may fail because of forebay. So the process keeps only a 128th of the
// limit, at most 128. It gives all back once half of the numbers are in use, and when an open fails for lack of one.
// Each call then opens the file. Thread-safety: all calls from any thread, also in a forked child. Only closing blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "base/status.h"

namespace forebay::io {

class SpareDescriptor {
  public:
    // Closes the descriptor, at once or when its last use ends; each later call opens the file. The list is locked,
    // so this calls none of its functions.
    virtual void give_back() noexcept = 0;

  protected:
    ~SpareDescriptor() = default;
};

class SpareDescriptors {
  public:
    static SpareDescriptors& of_process() noexcept;

    [[nodiscard]] bool has_room() noexcept;
    // Registers a holder of a descriptor, for `give_back`. Returns false if it may not keep the descriptor.
    [[nodiscard]] bool keep(SpareDescriptor& holder) noexcept;
    // After the return, no thread calls `holder`.
    void forget(SpareDescriptor& holder) noexcept;
    // Gives all back if descriptors are scarce. Call it before the program needs one.
    void give_back_if_scarce() noexcept;
    // Notes an open of the program, and calls `give_back_if_scarce` at every eighth.
    void note_open() noexcept;
    // Returns true if there were any, so a failed open may be retried.
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

// Returns true if an open failed because the process, or the machine, has no descriptor left.
[[nodiscard]] bool lacks_descriptors(const Status& status) noexcept;

}   // namespace forebay::io
