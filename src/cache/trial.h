// Decides from the reads of a file whether a replica would pay, for programs that did not ask (read_cache=auto).
// After every 32 requests the verdict is kPays for one of two patterns:
//   repeated   more than half of the bytes were read before;
//   scattered  more than half of the bytes do not continue one of the last 8 streams, and all such bytes so far are
//              more than half of the bytes read, and at least 1 % of the file, as in a shuffled training.
// It is kFast if the file system was as fast as the node would be. Otherwise it is kUndecided, as for one pass from
// front to back, in several streams or with gaps. docs/read-cache.md, "Without being asked". `Trial` is pure and not
// thread-safe; `SharedTrial` is thread-safe. Memory: at most 9 KiB.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "extent/range.h"

namespace forebay::cache {

// A source that answers `requests` requests of `bytes` bytes together in less than this is as fast as a replica.
[[nodiscard]] constexpr std::uint64_t fast_ns(std::uint64_t requests, std::uint64_t bytes) noexcept {
    constexpr std::uint64_t kRequestNs = 20'000, kBytesPerNs = 2;
    return requests * kRequestNs + bytes / kBytesPerNs;
}

class Trial {
  public:
    enum class Verdict : std::uint8_t { kUndecided, kFast, kPays };
    static constexpr std::uint64_t kWindow = 32;   // requests judged together

    // Without `judge_speed` the verdict is never kFast.
    explicit Trial(std::uint64_t file_bytes, bool judge_speed = true) noexcept
        : file_bytes_(file_bytes), judge_speed_(judge_speed) {}

    // May throw std::bad_alloc.
    [[nodiscard]] Verdict note(ByteRange asked, std::uint64_t took_ns);

  private:
    static constexpr std::size_t kStreams = 8;
    static constexpr std::size_t kPlacesMax = 1024;
    static constexpr std::uint64_t kGapMax = 4 << 20;       // within a stream
    static constexpr std::uint64_t kGapShare = 64;          // of the file, if that is less
    static constexpr std::uint64_t kScatteredShare = 100;   // scattered reads must be this share of the file

    struct Window {
        std::uint64_t requests = 0, bytes = 0, ns = 0;
        std::uint64_t telling = 0;   // scattered or repeated bytes
    };

    [[nodiscard]] bool follows(ByteRange asked) noexcept;
    [[nodiscard]] bool is_sampled(std::uint64_t place) const noexcept;
    void remember(std::uint64_t place);

    std::uint64_t file_bytes_;
    bool judge_speed_;
    std::array<std::uint64_t, kStreams> stream_ends_{};
    std::array<std::uint64_t, kStreams> stream_used_{};
    std::uint64_t tick_ = 0;
    std::uint64_t read_bytes_ = 0, scattered_bytes_ = 0;
    Window all_, sampled_;
    std::vector<std::uint64_t> places_;   // sorted: begins of sampled requests, with their approximate size
    unsigned thinned_ = 0;                // one in 2^thinned_ places is sampled
};

class SharedTrial {
  public:
    SharedTrial(std::uint64_t file_bytes, bool judge_speed) noexcept : trial_(file_bytes, judge_speed) {}
    // kUndecided without memory.
    [[nodiscard]] Trial::Verdict note(ByteRange asked, std::uint64_t took_ns) noexcept {
        const std::lock_guard lock(mutex_);
        try {
            return trial_.note(asked, took_ns);
        } catch (const std::bad_alloc&) {
            return Trial::Verdict::kUndecided;
        }
    }

  private:
    std::mutex mutex_;
    Trial trial_;
};

}   // namespace forebay::cache
