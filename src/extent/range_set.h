// A set of disjoint byte ranges.
#pragma once

#include <map>

#include "extent/range.h"

namespace forebay {

class RangeSet {
    using Map = std::map<std::uint64_t, std::uint64_t>;   // begin -> end

  public:
    // The caller makes sure that `range` overlaps nothing in the set.
    void add(ByteRange range) { ranges_.emplace(range.begin, range.end); }
    // `range` equals an added range.
    void remove(ByteRange range) { ranges_.erase(range.begin); }
    void clear() noexcept { ranges_.clear(); }
    [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }

    [[nodiscard]] bool overlaps(ByteRange range) const {
        const auto at = first_overlapping(range.begin);
        return !range.empty() && at != ranges_.end() && at->first < range.end;
    }

    // Calls `free(ByteRange)` for every part of `range` that is not in the set, in ascending order.
    template <class Free>
    void for_each_gap(ByteRange range, Free&& free) const {
        std::uint64_t from = range.begin;
        for (auto at = first_overlapping(range.begin); at != ranges_.end() && at->first < range.end; ++at) {
            if (from < at->first) free(ByteRange{from, at->first});
            from = at->second;
        }
        if (from < range.end) free(ByteRange{from, range.end});
    }

  private:
    [[nodiscard]] Map::const_iterator first_overlapping(std::uint64_t offset) const {
        auto at = ranges_.upper_bound(offset);
        if (at != ranges_.begin() && std::prev(at)->second > offset) --at;
        return at;
    }

    Map ranges_;
};

}   // namespace forebay
