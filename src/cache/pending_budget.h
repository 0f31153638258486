// The bytes of one file that are fetched, or about to be, and not stored yet.
// The bytes that are pending and those of the ahead buffer together stay within `CachePolicy::budget_bytes`; pending
// bytes also stay within the limit of all files. After `close` no bytes are taken. Invariant: each pending byte belongs
// to one `Share`, or to a caller of `take` that makes one. Thread-safe: a lock of its own guards the pending bytes and
// is innermost, but for the buffer's. `await` and `close` block until nothing is pending. The buffer outlives this.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "cache/ahead_buffer.h"
#include "cache/cache_policy.h"
#include "cache/shared_budget.h"

namespace forebay::cache {

class PendingBudget {
  public:
    PendingBudget(const CachePolicy& policy, AheadBuffer& buffer) noexcept
        : bytes_max_(policy.budget_bytes), shared_(policy.shared), buffer_(buffer) {}

    // Bytes that were taken; it gives them back when it ends.
    class Share {
      public:
        Share() noexcept = default;
        Share(std::shared_ptr<PendingBudget> budget, std::uint64_t bytes) noexcept
            : budget_(std::move(budget)), bytes_(bytes) {}
        ~Share() { shrink(0); }
        Share(Share&& other) noexcept : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
        Share& operator=(Share&& other) noexcept {
            shrink(0);
            budget_ = std::move(other.budget_);
            bytes_ = std::exchange(other.bytes_, 0);
            return *this;
        }
        void shrink(std::uint64_t to) noexcept {
            if (bytes_ > to) budget_->give_back(std::exchange(bytes_, to) - to);
        }

      private:
        std::shared_ptr<PendingBudget> budget_;
        std::uint64_t bytes_ = 0;
    };

    // Returns false at a limit and after the close. The caller makes a `Share` of the bytes.
    [[nodiscard]] bool take(std::uint64_t bytes);
    [[nodiscard]] bool has(std::uint64_t bytes) const;
    void give_back(std::uint64_t bytes);
    // Room in the ahead buffer, within the same budget.
    [[nodiscard]] AheadBuffer::Room reserve_ahead(std::uint64_t bytes);
    [[nodiscard]] std::uint64_t bytes() const;

    void await();
    // Takes nothing more, and waits until nothing is pending or for `at_most`. Returns at once if it was closed before.
    void close(std::chrono::milliseconds at_most);
    [[nodiscard]] bool is_closed() const noexcept { return closed_.load(); }

  private:
    const std::uint64_t bytes_max_;
    const std::shared_ptr<SharedBudget> shared_;
    AheadBuffer& buffer_;
    mutable std::mutex mutex_;   // guards `bytes_`
    std::condition_variable idle_;
    std::uint64_t bytes_ = 0;
    std::atomic<bool> closed_{false};
};

}   // namespace forebay::cache
