// A map from byte ranges of a file to values: disjoint extents, newest insertion wins.
//
// `Value` says where an extent's bytes are; it must offer `Value advanced(std::uint64_t bytes) const`,
// the value of the same extent with that many bytes cut off its front. Inserting over older extents
// trims, splits or removes them; what they lose is reported to the caller, who keeps the accounts.
// Costs: O(log n + pieces touched). Not thread-safe. Adjacent extents are not joined: their values
// differ (see plan/ for merging).
// Errors: `insert` and `erase` throw std::bad_alloc before anything has changed or was reported, or not
// at all. `reserve` lets a caller that has several of them to make fail before the first. `displaced`
// must not throw.
#pragma once

#include <concepts>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "extent/range.h"

namespace forebay {

template <class Value>
concept ExtentValue = std::default_initializable<Value> && std::is_nothrow_copy_constructible_v<Value> &&
                      std::is_nothrow_copy_assignable_v<Value> && requires(const Value value, std::uint64_t bytes) {
                          { value.advanced(bytes) } noexcept -> std::same_as<Value>;
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

    // What one call may take of what was reserved.
    static constexpr std::size_t kInsertNodes = 2, kEraseNodes = 1;

    // Later calls that take no more than `nodes` together do not fail. May throw std::bad_alloc.
    void reserve(std::size_t nodes) {
        while (spare_.size() < nodes) spare_.push_back(make_node());
    }

    // Makes `value` the content of `range`. `displaced(ByteRange, const Value&)` is called for every
    // piece of an older extent that is no longer in the map.
    template <class Displaced>
    void insert(ByteRange range, const Value& value, Displaced&& displaced) {
        if (range.empty()) return;
        Node node = take_node();
        node.key() = range.begin;
        node.mapped() = Entry{range.end, value};
        const auto next = carve(range, displaced);
        extents_.insert(next, std::move(node));
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

    // Empties the map without reporting; nothing stays reserved.
    void clear() noexcept {
        extents_.clear();
        spare_.clear();
    }

  private:
    struct Entry {
        std::uint64_t end;
        Value value;
    };
    using Map = std::map<std::uint64_t, Entry>;
    using Node = typename Map::node_type;

    [[nodiscard]] static Node make_node() {
        Map one;
        one.emplace(0, Entry{});
        return one.extract(one.begin());
    }

    [[nodiscard]] Node take_node() {
        if (spare_.empty()) return make_node();
        Node node = std::move(spare_.back());
        spare_.pop_back();
        return node;
    }

    [[nodiscard]] auto first_overlapping(std::uint64_t offset) const {
        auto at = extents_.upper_bound(offset);
        if (at != extents_.begin()) {
            const auto before = std::prev(at);
            if (before->second.end > offset) at = before;
        }
        return at;
    }

    // Clears `range`; returns the position behind it. Throws before it changes anything, or not at all.
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
                if (old.end > range.end) {   // one extent becomes two
                    Node rest = take_node();
                    rest.key() = range.end;
                    rest.mapped() = Entry{old.end, tail.advanced(range.end - lost.begin)};
                    at = extents_.insert(at, std::move(rest));
                }
                before->second.end = range.begin;
                displaced(lost, tail);
            }
        }
        while (at != extents_.end() && at->first < range.end) {
            const ByteRange old{at->first, at->second.end};
            displaced(old.intersect(range), std::as_const(at->second.value));
            const auto next = std::next(at);
            Node node = extents_.extract(at);
            if (old.end > range.end) {
                node.key() = range.end;
                node.mapped().value = node.mapped().value.advanced(range.end - old.begin);
                return extents_.insert(next, std::move(node));
            }
            at = next;
        }
        return at;
    }

    Map extents_;
    std::vector<Node> spare_;
};

}   // namespace forebay
