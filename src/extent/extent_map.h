// A map from byte ranges of a file to values. The extents are disjoint, and the newest insertion wins.
// `Value` says where an extent's bytes are. It offers `Value advanced(std::uint64_t bytes) const`: the value of the
// extent after a cut of `bytes` at its front. An insertion trims, splits or removes older extents, and reports their
// lost pieces to the caller, who keeps the accounts. Adjacent extents are not joined, because their values differ.
// The extents lie in leaves: arrays of up to `kLeafExtents` in file order. A search tree finds a leaf by its fence, the
// lowest offset of the leaf. So neighbours in the file are neighbours in memory. A write or a drain of many pieces
// finds its next place in the leaf of the last one. Invariants:
//   - a leaf holds the extents of [its fence, the next leaf's fence), whole: none crosses these bounds;
//   - the first leaf's fence is 0; no leaf is empty.
// Costs: O(log n + pieces touched). Thread-safety: none, not even for const functions. Errors: `insert` and `erase`
// throw std::bad_alloc before any change or report, or not at all. A caller with several changes calls `reserve` to
// fail before the first. `displaced` must not throw.
#pragma once

#include <algorithm>
#include <array>
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

template <ExtentValue Value, std::size_t kLeafExtents = 64>
class ExtentMap {
    static_assert(kLeafExtents >= 4, "half a leaf has room for what one insertion adds");

  public:
    struct Extent {
        ByteRange range;
        Value value;
    };

    ExtentMap() = default;
    ~ExtentMap() = default;
    // The moved-from map is empty.
    ExtentMap(ExtentMap&& other) noexcept { *this = std::move(other); }
    ExtentMap& operator=(ExtentMap&& other) noexcept {
        leaves_ = std::move(other.leaves_);
        spare_ = std::move(other.spare_);
        size_ = std::exchange(other.size_, 0);
        forget_recent();
        other.forget_recent();
        return *this;
    }
    ExtentMap(const ExtentMap&) = delete;
    ExtentMap& operator=(const ExtentMap&) = delete;

    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    // The nodes that one call may take from the reserve.
    static constexpr std::size_t kInsertNodes = 2, kEraseNodes = 1;

    // Makes sure that later calls which take at most `nodes` together do not fail. Throws std::bad_alloc.
    void reserve(std::size_t nodes) {
        while (spare_.size() < nodes) spare_.push_back(make_node());
    }

    // Makes `value` the content of `range`. Calls `displaced(ByteRange, const Value&)` for each older piece it removes.
    template <class Displaced>
    void insert(ByteRange range, const Value& value, Displaced&& displaced) {
        if (range.empty()) return;
        if (leaves_.empty()) {
            reserve(1);
            add_leaf(leaves_.end(), 0);
        }
        // A growing file appends behind its last extent, which needs no search.
        auto leaf = std::prev(leaves_.end());
        const bool appending = empty() || leaf->second.last().range.end <= range.begin;
        if (!appending) leaf = leaf_of(range.begin);
        reserve_for(leaf->second, appending ? 1 : 2);
        const bool reaches_over = !appending && range.end > recent_range_.end;
        const Place place = appending ? Place{leaf, leaf->second.count} : carve(leaf, range, displaced);
        const auto written = add(place, {range, value});
        if (!reaches_over) return;
        // The range is clear of older extents, so the next leaf holds no offset below the end of the range.
        if (const auto next = std::next(written); next != leaves_.end() && next->first < range.end)
            move_fence(next, range.end);
    }

    // Removes all pieces in `range`, and reports them as `insert` does.
    template <class Displaced>
    void erase(ByteRange range, Displaced&& displaced) {
        if (range.empty() || leaves_.empty() || leaves_.rbegin()->second.last().range.end <= range.begin) return;
        const auto leaf = leaf_of(range.begin);
        if (leaf->second.around(range) != nullptr) reserve_for(leaf->second, 1);
        const std::size_t before = size_;
        carve(leaf, range, displaced);
        if (size_ < before) tidy(leaf);
    }

    // Removes the parts of extents within `range` for which `gone(ByteRange, const Value&)` returns true, and reports
    // them to `displaced` as `erase` does. Calls `gone` in ascending order.
    template <class Gone, class Displaced>
    void erase_if(ByteRange range, Gone&& gone, Displaced&& displaced) {
        if (range.empty() || leaves_.empty()) return;
        const auto first = leaf_of(range.begin);
        if (const Extent* const around = first->second.around(range)) {
            if (gone(range, around->value.advanced(range.begin - around->range.begin))) erase(range, displaced);
            return;
        }
        size_ -= first->second.erase_if(range, gone, displaced);
        auto last = first;
        for (auto leaf = std::next(first); leaf != leaves_.end() && leaf->first < range.end; leaf = std::next(last)) {
            size_ -= leaf->second.erase_if(range, gone, displaced);
            if (!absorb(last, leaf)) last = leaf;
        }
        tidy(first);
    }

    // Calls `visit(ByteRange, Value)` for every piece within `range`, cut to the range, in ascending order.
    template <class Visit>
    void for_each(ByteRange range, Visit&& visit) const {
        if (range.empty()) return;
        walk_from(range.begin, [&](ByteRange whole, const Value& value) {
            if (whole.begin >= range.end) return false;
            const ByteRange piece = whole.intersect(range);
            visit(piece, value.advanced(piece.begin - whole.begin));
            return whole.end < range.end;
        });
    }

    // Works like `for_each`, and calls `gap(ByteRange)` for every uncovered part of `range` in between.
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
        bool any = false;
        for_each(range, [&](ByteRange, const Value&) { any = true; });
        return any;
    }

    // Walks whole extents from the first one that ends beyond `offset`, until `visit(ByteRange, Value)` returns false.
    template <class Visit>
    void walk_from(std::uint64_t offset, Visit&& visit) const {
        if (leaves_.empty()) return;
        auto leaf = find_leaf(offset);
        for (std::size_t at = leaf->second.first_beyond(offset); leaf != leaves_.end(); ++leaf, at = 0)
            for (; at < leaf->second.count; ++at)
                if (!visit(leaf->second.extents[at].range, leaf->second.extents[at].value)) return;
    }

    // Empties the map and the reserve without reports.
    void clear() noexcept {
        leaves_.clear();
        spare_.clear();
        size_ = 0;
        forget_recent();
    }

  private:
    struct Leaf {
        std::size_t count = 0;
        std::array<Extent, kLeafExtents> extents;   // ascending

        [[nodiscard]] auto iterator(std::size_t at) noexcept {
            return extents.begin() + static_cast<std::ptrdiff_t>(at);
        }
        [[nodiscard]] const Extent& last() const noexcept { return extents[count - 1]; }

        // Returns the number of extents that end at or before `offset`.
        [[nodiscard]] std::size_t first_beyond(std::uint64_t offset) const noexcept {
            const auto begin = extents.begin(), end = begin + static_cast<std::ptrdiff_t>(count);
            const auto found = std::upper_bound(begin, end, offset, [](std::uint64_t at, const Extent& extent) {
                return at < extent.range.end;
            });
            return static_cast<std::size_t>(found - begin);
        }
        // Returns the extent that extends beyond `range` at both ends, or null.
        [[nodiscard]] const Extent* around(ByteRange range) const noexcept {
            const std::size_t at = first_beyond(range.begin);
            if (at == count || extents[at].range.begin >= range.begin || extents[at].range.end <= range.end)
                return nullptr;
            return &extents[at];
        }
        void add(std::size_t at, const Extent& extent) noexcept {
            std::copy_backward(iterator(at), iterator(count), iterator(count + 1));
            extents[at] = extent;
            ++count;
        }
        void remove(std::size_t first, std::size_t last) noexcept {
            if (first == last) return;
            std::copy(iterator(last), iterator(count), iterator(first));
            count -= last - first;
        }
        void move_tail(std::size_t from, Leaf& to) noexcept {
            std::copy(iterator(from), iterator(count), to.iterator(to.count));
            to.count += count - from;
            count = from;
        }
        // Implements ExtentMap::erase_if for one leaf without `around`. Returns the number of erased extents.
        template <class Gone, class Displaced>
        std::size_t erase_if(ByteRange range, Gone& gone, Displaced& displaced) {
            std::size_t at = first_beyond(range.begin), kept = at;
            for (; at < count && extents[at].range.begin < range.end; ++at) {
                Extent& extent = extents[at];
                const ByteRange piece = extent.range.intersect(range);
                const Value value = extent.value.advanced(piece.begin - extent.range.begin);
                if (gone(piece, value)) {
                    displaced(piece, value);
                    if (piece == extent.range) continue;
                    extent = piece.begin > extent.range.begin
                                 ? Extent{{extent.range.begin, piece.begin}, extent.value}
                                 : Extent{{piece.end, extent.range.end}, value.advanced(piece.size())};
                }
                if (kept != at) extents[kept] = extents[at];
                ++kept;
            }
            const std::size_t erased = at - kept;
            remove(kept, at);
            return erased;
        }
    };
    using Leaves = std::map<std::uint64_t, Leaf>;   // by fence
    using Node = typename Leaves::node_type;
    using LeafIterator = typename Leaves::iterator;
    struct Place {
        LeafIterator leaf;
        std::size_t at;
    };

    [[nodiscard]] static Node make_node() {
        Leaves one;
        one.try_emplace(0);
        return one.extract(one.begin());
    }

    // Makes sure that `more` extents fit into the leaf.
    void reserve_for(const Leaf& leaf, std::size_t more) {
        if (leaf.count + more > kLeafExtents) reserve(more);
    }

    // Returns the leaf that is responsible for `offset`. It exists.
    [[nodiscard]] auto find_leaf(std::uint64_t offset) const {
        if (recent_range_.begin <= offset && offset < recent_range_.end) return recent_;
        const auto next = leaves_.upper_bound(offset);
        recent_ = std::prev(next);
        recent_range_ = {recent_->first, next == leaves_.end() ? kOffsetMax : next->first};
        return recent_;
    }
    [[nodiscard]] LeafIterator leaf_of(std::uint64_t offset) {
        const auto leaf = find_leaf(offset);
        return leaves_.erase(leaf, leaf);   // erases nothing: it turns the iterator into a mutable one
    }
    void forget_recent() noexcept { recent_range_ = {}; }

    // Adds a leaf from the reserve.
    LeafIterator add_leaf(LeafIterator before, std::uint64_t fence) {
        Node node = std::move(spare_.back());
        spare_.pop_back();
        node.key() = fence;
        forget_recent();
        return leaves_.insert(before, std::move(node));
    }
    void move_fence(LeafIterator leaf, std::uint64_t fence) {
        const auto next = std::next(leaf);
        Node node = leaves_.extract(leaf);
        node.key() = fence;
        forget_recent();
        leaves_.insert(next, std::move(node));
    }
    void remove_leaf(LeafIterator leaf) {
        const bool first = leaf == leaves_.begin();
        const auto next = leaves_.erase(leaf);
        forget_recent();
        if (first && next != leaves_.end()) move_fence(next, 0);
    }
    // After a removal, merges the next leaf into `leaf` if the next one is empty or both have become sparse.
    bool absorb(LeafIterator leaf, LeafIterator next) {
        if (next->second.count > 0 && leaf->second.count + next->second.count > kLeafExtents / 2) return false;
        next->second.move_tail(0, leaf->second);
        remove_leaf(next);
        return true;
    }
    void tidy(LeafIterator leaf) {
        if (leaf->second.count == 0) remove_leaf(leaf);
        else if (const auto next = std::next(leaf); next != leaves_.end()) absorb(leaf, next);
    }

    // Puts an extent into a gap, and returns its leaf. If the leaf is full, the caller has reserved another one.
    LeafIterator add(Place place, const Extent& extent) {
        ++size_;
        if (place.leaf->second.count == kLeafExtents) {
            const auto next = std::next(place.leaf);
            if (place.at == kLeafExtents) {   // ascending insertions fill their leaves
                place = {add_leaf(next, extent.range.begin), 0};
            } else {
                constexpr std::size_t kHalf = kLeafExtents / 2;
                const auto right = add_leaf(next, place.leaf->second.extents[kHalf].range.begin);
                place.leaf->second.move_tail(kHalf, right->second);
                if (place.at > kHalf) place = {right, place.at - kHalf};
            }
        }
        place.leaf->second.add(place.at, extent);
        return place.leaf;
    }

    // Clears `range`, which begins in `leaf`, and returns the place for it, in a leaf that may be empty now. It splits
    // at most one extent, for which `leaf` has room or the caller has reserved a leaf.
    template <class Displaced>
    Place carve(LeafIterator leaf, ByteRange range, Displaced& displaced) {
        std::size_t at = leaf->second.first_beyond(range.begin);
        if (at < leaf->second.count && leaf->second.extents[at].range.begin < range.begin) {
            Extent& old = leaf->second.extents[at];
            const ByteRange lost = old.range.intersect(range);
            const Value tail = old.value.advanced(lost.begin - old.range.begin);
            const std::uint64_t old_end = std::exchange(old.range.end, range.begin);
            displaced(lost, tail);
            ++at;
            if (old_end > range.end) {
                leaf = add({leaf, at}, {{range.end, old_end}, tail.advanced(range.end - lost.begin)});
                // After a split of the leaf, the place before the second part may belong to the previous leaf.
                at = leaf->second.first_beyond(range.begin);
                if (at == 0 && leaf->first > range.begin) {
                    --leaf;
                    at = leaf->second.count;
                }
                return {leaf, at};
            }
        }
        bool beyond = range.end <= recent_range_.end;   // the range ends within the leaf
        beyond = clear_from(leaf->second, at, range, displaced) || beyond;
        for (auto next = std::next(leaf); !beyond && next != leaves_.end() && next->first < range.end;
             next = std::next(leaf)) {
            beyond = clear_from(next->second, 0, range, displaced);
            if (!absorb(leaf, next)) break;   // the next leaf still has bytes beyond the range
        }
        return {leaf, at};
    }

    // Clears the part of `range` in the leaf, from its extent `at` on. No extent from there on begins before the range.
    // Returns true if the leaf has bytes beyond the range.
    template <class Displaced>
    bool clear_from(Leaf& leaf, std::size_t at, ByteRange range, Displaced& displaced) {
        std::size_t last = at;
        for (; last < leaf.count && leaf.extents[last].range.end <= range.end; ++last)
            displaced(std::as_const(leaf.extents[last].range), std::as_const(leaf.extents[last].value));
        const bool beyond = last < leaf.count;
        if (beyond && leaf.extents[last].range.begin < range.end) {
            Extent& old = leaf.extents[last];
            const ByteRange lost{old.range.begin, range.end};
            displaced(lost, std::as_const(old.value));
            old = {{range.end, old.range.end}, old.value.advanced(lost.size())};
        }
        size_ -= last - at;
        leaf.remove(at, last);
        return beyond;
    }

    Leaves leaves_;
    std::vector<Node> spare_;
    std::size_t size_ = 0;
    mutable
        typename Leaves::const_iterator recent_;   // leaf of the last search, valid for the offsets in `recent_range_`
    mutable ByteRange recent_range_{};
};

}   // namespace forebay
