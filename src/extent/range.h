// Half-open ranges of byte offsets in a file: [begin, end).
#pragma once

#include <algorithm>
#include <cstdint>

namespace forebay {

struct ByteRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    [[nodiscard]] constexpr std::uint64_t size() const noexcept { return end - begin; }
    [[nodiscard]] constexpr bool empty() const noexcept { return begin >= end; }
    [[nodiscard]] constexpr bool overlaps(const ByteRange& other) const noexcept {
        return begin < other.end && other.begin < end;
    }
    [[nodiscard]] constexpr bool contains(const ByteRange& other) const noexcept {
        return begin <= other.begin && other.end <= end;
    }
    // Returns the common part; empty (begin == end) if there is none.
    [[nodiscard]] constexpr ByteRange intersect(const ByteRange& other) const noexcept {
        const std::uint64_t low = std::max(begin, other.begin);
        return {low, std::max(low, std::min(end, other.end))};
    }
    friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};

inline constexpr std::uint64_t kOffsetMax = UINT64_MAX;

}   // namespace forebay
