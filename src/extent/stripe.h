// Stripes: pieces of `stripe` bytes of a file, from offset 0 on. `stripe` is at least 1, and any number. Pure.
#pragma once

#include <cstdint>

#include "extent/range.h"

namespace forebay {

[[nodiscard]] constexpr std::uint64_t align_down(std::uint64_t offset, std::uint64_t stripe) noexcept {
    return offset - offset % stripe;
}

// Returns the smallest stripe boundary at or above `offset`, or `kOffsetMax` if 64 bits cannot hold it.
[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t offset, std::uint64_t stripe) noexcept {
    const std::uint64_t rest = offset % stripe;
    if (rest == 0) return offset;
    return offset > kOffsetMax - (stripe - rest) ? kOffsetMax : offset + (stripe - rest);
}

// Returns the end of a write from `range.begin` on. That is the range's end if it fits into `write_max` bytes, else the
// last stripe boundary within `write_max` bytes. Without such a boundary the write has `write_max` bytes.
[[nodiscard]] constexpr std::uint64_t cut(const ByteRange& range, std::uint64_t stripe,
                                          std::uint64_t write_max) noexcept {
    if (range.size() <= write_max) return range.end;
    const std::uint64_t reach = range.begin + write_max;
    const std::uint64_t boundary = align_down(reach, stripe);
    return boundary > range.begin ? boundary : reach;
}

}   // namespace forebay
