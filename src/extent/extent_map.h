// A map from byte ranges of a file to values: disjoint extents, newest insertion wins.
//
// `Value` says where an extent's bytes are; it must offer `Value advanced(std::uint64_t bytes) const`,
// the value of the same extent with that many bytes cut off its front. Inserting over older extents
// trims, splits or removes them; what they lose is reported to the caller, who keeps the accounts.
// Costs: O(log n + pieces touched). Not thread-safe. Adjacent extents are not joined: their values
// differ (see plan/ for merging).
#pragma once

#include <concepts>
#include <iterator>
#include <map>

#include "extent/range.h"

namespace forebay {

template <class Value>
concept ExtentValue = requires(const Value value, std::uint64_t bytes) {
    { value.advanced(bytes) } -> std::same_as<Value>;
};

template <ExtentValue Value>
class ExtentMap {
  public:
    struct Extent {
        ByteRange range;
        Value value;
    };

    [[nodiscard]] bool empty() const noexcept { return extents_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return extents_.size(); }

    // Makes `value` the content of `range`. `displaced(ByteRange, const Value&)` is called for every
    // piece of an older extent that is no longer in the map.
    template <class Displaced>
    void insert(ByteRange range, Value value, Displaced&& displaced) {
        if (range.empty()) return;
        const auto next = carve(range, displaced);
        extents_.emplace_hint(next, range.begin, Entry{range.end, std::move(value)});
    }

    // Removes whatever lies in `range`, reporting it as `insert` does.
    template <class Displaced>
    void erase(ByteRange range, Displaced&& displaced) {
        if (!range.empty()) carve(range, displaced);
    }

    // Calls `visit(ByteRange, Value)` for every piece within `range`, in ascending order; pieces are
    // cut to the range.
    template <class Visit>
    void for_each(ByteRange range, Visit&& visit) const {
        for (auto at = first_overlapping(range.begin); at != extents_.end() && at->first < range.end; ++at) {
            const ByteRange piece = ByteRange{at->first, at->second.end}.intersect(range);
            if (!piece.empty()) visit(piece, at->second.value.advanced(piece.begin - at->first));
        }
    }

    // As `for_each`, and `gap(ByteRange)` for every part of `range` in between that no extent covers.
    template <class Visit, class Gap>
    void for_each_and_gap(ByteRange range, Visit&& visit, Gap&& gap) const {
        std::uint64_t at = range.begin;
        for_each(range, [&](ByteRange piece, const Value& value) {
            if (at < piece.begin) gap(ByteRange{at, piece.begin});
            visit(piece, value);
            at = piece.end;
        });
        if (at < range.end) gap(ByteRange{at, range.end});
    }

    [[nodiscard]] bool overlaps(ByteRange range) const {
        const auto at = first_overlapping(range.begin);
        return !range.empty() && at != extents_.end() && at->first < range.end;
    }

    // Walks whole extents from the first one that ends beyond `offset`; `visit(ByteRange, Value)`
    // returns false to stop.
    template <class Visit>
    void walk_from(std::uint64_t offset, Visit&& visit) const {
        for (auto at = first_overlapping(offset); at != extents_.end(); ++at)
            if (!visit(ByteRange{at->first, at->second.end}, at->second.value)) return;
    }

    // Empties the map without reporting.
    void clear() noexcept { extents_.clear(); }

  private:
    struct Entry {
        std::uint64_t end;
        Value value;
    };
    using Map = std::map<std::uint64_t, Entry>;

    [[nodiscard]] auto first_overlapping(std::uint64_t offset) const {
        auto at = extents_.upper_bound(offset);
        if (at != extents_.begin()) {
            const auto before = std::prev(at);
            if (before->second.end > offset) at = before;
        }
        return at;
    }

    // Clears `range`; returns the position behind it.
    template <class Displaced>
    auto carve(ByteRange range, Displaced& displaced) {
        // Appending behind the last extent, the common case of a growing file, needs no search.
        if (extents_.empty() || std::prev(extents_.end())->second.end <= range.begin) return extents_.end();
        auto at = extents_.lower_bound(range.begin);
        if (at != extents_.begin()) {
            const auto before = std::prev(at);
            const ByteRange old{before->first, before->second.end};
            if (old.end > range.begin) {
                const ByteRange lost = old.intersect(range);
                const Value tail = before->second.value.advanced(lost.begin - old.begin);
                before->second.end = range.begin;
                displaced(lost, tail);
                if (old.end > range.end)
                    at = extents_.emplace_hint(at, range.end,
                                               Entry{old.end, tail.advanced(range.end - lost.begin)});
            }
        }
        while (at != extents_.end() && at->first < range.end) {
            const ByteRange old{at->first, at->second.end};
            const ByteRange lost = old.intersect(range);
            displaced(lost, static_cast<const Value&>(at->second.value));
            if (old.end > range.end) {
                Entry rest{old.end, at->second.value.advanced(range.end - old.begin)};
                at = extents_.erase(at);
                return extents_.emplace_hint(at, range.end, std::move(rest));
            }
            at = extents_.erase(at);
        }
        return at;
    }

    Map extents_;
};

}   // namespace forebay
