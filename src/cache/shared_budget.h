// Limits the bytes that all files of a process have read and not stored yet. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace forebay::cache {

class SharedBudget {
  public:
    explicit SharedBudget(std::uint64_t bytes) noexcept : limit_(bytes), left_(bytes) {}
    [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }
    // Takes nothing if fewer than `leaving` bytes would be left.
    [[nodiscard]] bool take(std::uint64_t bytes, std::uint64_t leaving = 0) noexcept {
        std::uint64_t left = left_.load(std::memory_order_relaxed);
        while (left >= bytes + leaving)
            if (left_.compare_exchange_weak(left, left - bytes)) return true;
        return false;
    }
    void give_back(std::uint64_t bytes) noexcept { left_.fetch_add(bytes); }
    [[nodiscard]] bool has(std::uint64_t bytes) const noexcept {
        return left_.load(std::memory_order_relaxed) >= bytes;
    }

  private:
    const std::uint64_t limit_;
    std::atomic<std::uint64_t> left_;
};

}   // namespace forebay::cache
