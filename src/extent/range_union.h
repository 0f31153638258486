// The union of byte ranges. It joins ranges that adjoin or overlap. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

#include "extent/range.h"

namespace forebay {

class RangeUnion {
  public:
    void add(ByteRange range) {
        if (range.empty()) return;
        auto at = ranges_.upper_bound(range.begin);
        if (at != ranges_.begin() && std::prev(at)->second >= range.begin) --at;
        while (at != ranges_.end() && at->first <= range.end) {
            range = {std::min(range.begin, at->first), std::max(range.end, at->second)};
            at = ranges_.erase(at);
        }
        ranges_.emplace(range.begin, range.end);
    }
    void add(const RangeUnion& other) {
        for (const auto& [begin, end] : other.ranges_) add({begin, end});
    }
    // Changes nothing if it throws.
    void remove(ByteRange range) {
        if (range.empty()) return;
        auto at = ranges_.upper_bound(range.begin);
        if (at != ranges_.begin() && std::prev(at)->second > range.begin) --at;
        while (at != ranges_.end() && at->first < range.end) {
            const ByteRange old{at->first, at->second};
            if (old.end > range.end) ranges_.emplace(range.end, old.end);   // before any change, as it needs memory
            if (old.begin >= range.begin) {
                at = ranges_.erase(at);
                if (old.end > range.end) break;
                continue;
            }
            at->second = range.begin;
            ++at;
        }
    }
    void clear() noexcept { ranges_.clear(); }
    [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }

    // Calls `missing(ByteRange)` for every part of `range` outside the union, in ascending order.
    template <class Missing>
    void for_each_gap(ByteRange range, Missing&& missing) const {
        auto at = ranges_.upper_bound(range.begin);
        if (at != ranges_.begin() && std::prev(at)->second > range.begin) --at;
        std::uint64_t from = range.begin;
        for (; at != ranges_.end() && at->first < range.end; ++at) {
            if (from < at->first) missing(ByteRange{from, at->first});
            from = std::max(from, at->second);
        }
        if (from < range.end) missing(ByteRange{from, range.end});
    }

  private:
    std::map<std::uint64_t, std::uint64_t> ranges_;   // begin -> end
};

}   // namespace forebay
