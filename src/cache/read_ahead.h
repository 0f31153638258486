// Decides how many bytes of a file to fetch before they are requested (docs/read-cache.md, "How much is read ahead").
// In sequence: after three requests in a row the next unit, then twice as much each time. At random: nothing until the
// program requested more than a sample; then several bytes for each further one, in file order. Pure; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "extent/range.h"

namespace forebay::cache {

inline constexpr std::uint64_t kSampleShare = 12;

class ReadAhead {
  public:
    // At random it fetches from `first_byte` on, then from the beginning. A sample is less than 1 / `sample_share`.
    explicit ReadAhead(std::uint64_t file_bytes, std::uint64_t first_byte = 0,
                       std::uint64_t sample_share = kSampleShare) noexcept
        : file_bytes_(file_bytes), first_byte_(first_byte), sample_share_(sample_share) {}

    [[nodiscard]] ByteRange after_miss(ByteRange asked) noexcept {
        note(asked);
        if (follows_ >= kFollowing) {
            window_ = std::clamp(window_ * 2, kUnit, kWindowMax);
            const ByteRange ahead{asked.end, std::min(asked.end + window_, file_bytes_)};
            ahead_end_ = ahead.end;
            return ahead.begin < ahead.end ? ahead : ByteRange{};
        }
        window_ = 0;
        return sweep();
    }
    [[nodiscard]] std::uint64_t swept_to() const noexcept { return cursor_; }

  private:
    static constexpr unsigned kFollowing = 3;
    static constexpr std::uint64_t kBlock = 4 << 10, kUnit = 256 << 10, kWindowMax = 8 << 20, kSweep = 1 << 20;
    static constexpr std::uint64_t kPerByte = 4;

    // Hits between two misses are not reported: bytes read ahead, and the rest of the last block.
    void note(ByteRange asked) noexcept {
        const std::uint64_t told_end = std::max(last_end_, window_ > 0 ? ahead_end_ : 0);
        const std::uint64_t known_end = told_end / kBlock * kBlock + kBlock;
        follows_ = asked.begin >= last_end_ && asked.begin <= known_end ? follows_ + 1 : 0;
        last_end_ = asked.end;
        asked_bytes_ += asked.size();
    }

    // The next piece in file order, if the requested bytes warrant it.
    ByteRange sweep() noexcept {
        const std::uint64_t sample = file_bytes_ / sample_share_;
        if (asked_bytes_ <= sample || cursor_ >= file_bytes_) return {};
        const std::uint64_t allowed = (asked_bytes_ - sample) * kPerByte;
        if (cursor_ >= allowed) return {};
        const std::uint64_t at = (first_byte_ + cursor_) % file_bytes_;
        const ByteRange next{at, std::min(at + kSweep, file_bytes_)};
        cursor_ += next.size();
        return next;
    }

    std::uint64_t file_bytes_, first_byte_, sample_share_;
    std::uint64_t asked_bytes_ = 0, window_ = 0, cursor_ = 0;
    std::uint64_t last_end_ = kOffsetMax;   // of the last request
    std::uint64_t ahead_end_ = 0;           // of the window
    unsigned follows_ = 0;
};

}   // namespace forebay::cache
