// Bytes of one file that were fetched ahead of the program's reads, and for which its replica has no room.
// A fetcher reserves room, announces a range, and then hands over its bytes or gives up. Bytes are dropped after as
// many reads as requested, or once the program has read as many bytes from the file as the buffer may hold. The caller
// compares versions before it hands over bytes and after reads. docs/read-cache.md, "In a known order".
// Thread-safe. Only `await` blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cache/shared_budget.h"
#include "extent/range.h"
#include "io/file.h"

namespace forebay::cache {

class AheadBuffer {
  public:
    // Holds at most `bytes_max`, also taken from `shared`, which keeps half of its limit; null: no shared limit.
    AheadBuffer(std::uint64_t bytes_max, std::shared_ptr<SharedBudget> shared) noexcept
        : bytes_max_(bytes_max), shared_(std::move(shared)) {}
    ~AheadBuffer() { give_back(bytes_.load()); }
    AheadBuffer(const AheadBuffer&) = delete;
    AheadBuffer& operator=(const AheadBuffer&) = delete;

    // The buffer outlives it.
    class Room {
      public:
        Room() noexcept = default;
        ~Room() {
            if (bytes_ > 0) buffer_->give_back(bytes_);
        }
        Room(Room&& other) noexcept : buffer_(other.buffer_), bytes_(std::exchange(other.bytes_, 0)) {}
        Room& operator=(Room&& other) noexcept {
            std::swap(buffer_, other.buffer_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        explicit operator bool() const noexcept { return bytes_ > 0; }

      private:
        friend class AheadBuffer;
        AheadBuffer* buffer_ = nullptr;
        std::uint64_t bytes_ = 0;
    };
    // Returns no room at the limit, or after `close`.
    [[nodiscard]] Room reserve(std::uint64_t bytes) noexcept;

    // Returns the first part of `range` that is neither held nor being fetched, at most as long as `room`, which it
    // takes; the caller fetches it. Empty: no such part, or no room. The program will read `asked`, also counted for
    // held parts that lie before. May throw std::bad_alloc.
    [[nodiscard]] ByteRange begin_fetch(Room& room, ByteRange range, ByteRange asked);
    void hand_over(std::uint64_t begin, std::vector<std::byte> bytes) noexcept;
    void give_up(std::uint64_t begin) noexcept;

    using Bytes = std::shared_ptr<const std::vector<std::byte>>;
    struct Part {
        std::size_t bytes = 0;   // read
        // After the last read of a fetched range: all of its bytes, from `begin` on. Otherwise null.
        std::uint64_t begin = 0;
        Bytes dropped{};
    };
    // Fills `into` from the held range that has `offset`, if there is one.
    [[nodiscard]] Part read(std::uint64_t offset, io::MutableBytes into) noexcept;
    // False at once if the byte at `offset` is not being fetched.
    [[nodiscard]] bool await(std::uint64_t offset, std::chrono::nanoseconds at_most) noexcept;
    // The begin of the first range after `offset` that is held or being fetched, at most `end`.
    [[nodiscard]] std::uint64_t end_of_gap(std::uint64_t offset, std::uint64_t end) const noexcept;
    // The program reads `range` from the file. Drops held bytes of it, and bytes that were held too long.
    void note_passed(ByteRange range) noexcept;

    // Drops all bytes; bytes being fetched are dropped on arrival. After `close` nothing is held.
    void clear() noexcept;
    void close() noexcept;

    // Also true while bytes are being fetched. Takes no lock.
    [[nodiscard]] bool active() const noexcept { return bytes_.load(std::memory_order_acquire) > 0; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t bytes_max() const noexcept { return bytes_max_; }
    // True if fewer bytes were dropped unread than were read, give or take one buffer.
    [[nodiscard]] bool pays() const noexcept {
        return dropped_bytes_.load(std::memory_order_relaxed) <
               read_bytes_.load(std::memory_order_relaxed) + bytes_max_;
    }

  private:
    struct Held {
        std::uint64_t size = 0;
        std::uint64_t left = 0;     // bytes to read until it is dropped
        std::uint64_t passed = 0;   // passed_bytes_ at the begin of its fetch
        Bytes bytes{};              // null: being fetched
    };
    using Ranges = std::map<std::uint64_t, Held>;   // by begin; disjoint

    [[nodiscard]] Ranges::iterator at_or_after(std::uint64_t offset) noexcept;
    bool count_read(Ranges::iterator held, std::uint64_t bytes) noexcept;
    void drop(Ranges::iterator held) noexcept;
    void drop_old() noexcept;
    void give_back(std::uint64_t bytes) noexcept;

    const std::uint64_t bytes_max_;
    const std::shared_ptr<SharedBudget> shared_;
    mutable std::mutex mutex_;   // guards the members up to the atomics
    std::condition_variable fetched_;
    Ranges ranges_;
    std::uint64_t passed_bytes_ = 0, looked_at_ = 0;
    bool closed_ = false;
    std::atomic<std::uint64_t> bytes_{0}, read_bytes_{0}, dropped_bytes_{0};
};

}   // namespace forebay::cache
