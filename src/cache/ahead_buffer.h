// Bytes of one file that were fetched ahead of the program's reads and that its replica has no room for.
//
// A fetcher reserves room, says which range it fetches, and then hands over the bytes or gives up. Bytes are dropped
// once they were read as often as they were asked for. Bytes that the program does not read are dropped in the end:
// after it has read as many from the file itself as the buffer may hold. The caller compares versions: before it hands
// over bytes, and after it has read some. docs/read-cache.md, "In a known order".
//
// Thread-safety: all members, from any thread. Only `await` blocks.
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
    // Holds at most `bytes_max`. They are taken from `shared` too, which keeps half of its limit; null: no such limit.
    AheadBuffer(std::uint64_t bytes_max, std::shared_ptr<SharedBudget> shared) noexcept
        : bytes_max_(bytes_max), shared_(std::move(shared)) {}
    ~AheadBuffer() { give_back(bytes_.load()); }
    AheadBuffer(const AheadBuffer&) = delete;
    AheadBuffer& operator=(const AheadBuffer&) = delete;

    // Room for so many bytes, as long as it lives. The buffer outlives it.
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
    // Returns no room if the limit is reached, or after `close`.
    [[nodiscard]] Room reserve(std::uint64_t bytes) noexcept;

    // Returns the first part of `range` that is neither here nor on its way, which the caller fetches next. Takes as
    // much of `room` as the part has, and cuts the part to that. Empty: all of it is here or on its way, or there is no
    // room left. Of the range `asked` is going to be read; that counts for the parts, too, that are here already and
    // lie before that one. May throw std::bad_alloc.
    [[nodiscard]] ByteRange begin_fetch(Room& room, ByteRange range, ByteRange asked);
    // Ends the fetch of the range that begins at `begin`: with all of its bytes, or without.
    void hand_over(std::uint64_t begin, std::vector<std::byte> bytes) noexcept;
    void give_up(std::uint64_t begin) noexcept;

    using Bytes = std::shared_ptr<const std::vector<std::byte>>;
    struct Part {
        std::size_t bytes = 0;   // that were read
        // If this was their last read: all bytes of the range that was fetched, from `begin` on. Else null.
        std::uint64_t begin = 0;
        Bytes dropped{};
    };
    // Fills `into` from `offset` on with bytes of the range that has `offset`, if one is held.
    [[nodiscard]] Part read(std::uint64_t offset, io::MutableBytes into) noexcept;
    // Returns once the byte at `offset` is not being fetched, or the time is over. False: it was not being fetched.
    [[nodiscard]] bool await(std::uint64_t offset, std::chrono::nanoseconds at_most) noexcept;
    // From `offset` on, where the first range that is held or being fetched begins, at most `end`.
    [[nodiscard]] std::uint64_t end_of_gap(std::uint64_t offset, std::uint64_t end) const noexcept;
    // The program reads this from the file itself. Drops what was read so, and what has been here for too long.
    void note_passed(ByteRange range) noexcept;

    // Drops everything. What is being fetched is not kept. After `close` nothing is held any more.
    void clear() noexcept;
    void close() noexcept;

    // Something is held or being fetched. Takes no lock.
    [[nodiscard]] bool active() const noexcept { return bytes_.load(std::memory_order_acquire) > 0; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t bytes_max() const noexcept { return bytes_max_; }
    // Fewer bytes were dropped unread than were read, or one buffer of them more.
    [[nodiscard]] bool pays() const noexcept {
        return dropped_bytes_.load(std::memory_order_relaxed) <
               read_bytes_.load(std::memory_order_relaxed) + bytes_max_;
    }

  private:
    struct Held {
        std::uint64_t size = 0;
        std::uint64_t left = 0;     // bytes to be read until it is dropped
        std::uint64_t passed = 0;   // passed_bytes_ when its fetch began
        Bytes bytes{};              // null: being fetched
    };
    using Ranges = std::map<std::uint64_t, Held>;   // by begin; they do not overlap

    // The range that has the byte at `offset`, or the next one.
    [[nodiscard]] Ranges::iterator at_or_after(std::uint64_t offset) noexcept;
    bool count_read(Ranges::iterator held, std::uint64_t bytes) noexcept;
    void drop(Ranges::iterator held) noexcept;
    void drop_old() noexcept;
    void give_back(std::uint64_t bytes) noexcept;

    const std::uint64_t bytes_max_;
    const std::shared_ptr<SharedBudget> shared_;
    mutable std::mutex mutex_;   // guards what follows, up to the atomics
    std::condition_variable fetched_;
    Ranges ranges_;
    std::uint64_t passed_bytes_ = 0, looked_at_ = 0;
    bool closed_ = false;
    std::atomic<std::uint64_t> bytes_{0}, read_bytes_{0}, dropped_bytes_{0};
};

}   // namespace forebay::cache
