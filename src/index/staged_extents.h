// Staged extents of one kind (held, ready or sent): a map, its byte counts, and its part of the keepers' live bytes. A
// keeper is a segment or a run (index/keepers.h, index/gathered.h). Extents without one are zeros that a truncation
// left, and are counted apart. Not thread-safe. Errors: std::bad_alloc. Functions that throw it change nothing, unless
// their comment says more. The counts always agree with the map.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "extent/extent_map.h"
#include "index/keepers.h"
#include "index/staged_place.h"

namespace forebay::index {

class StagedExtents {
  public:
    using Map = ExtentMap<StagedPlace>;
    using Extent = Map::Extent;

    // `keepers` outlives the extents.
    explicit StagedExtents(Keepers& keepers) noexcept : keepers_(keepers) {}
    StagedExtents(const StagedExtents&) = delete;
    StagedExtents& operator=(const StagedExtents&) = delete;

    [[nodiscard]] const Map& map() const noexcept { return map_; }
    [[nodiscard]] bool empty() const noexcept { return map_.empty(); }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }   // without zeros
    [[nodiscard]] std::uint64_t zero_bytes() const noexcept { return zero_bytes_; }
    // Bytes that `add`, `remove` and `remove_older` have removed so far. Zeros do not count.
    [[nodiscard]] std::uint64_t superseded_bytes() const noexcept { return superseded_bytes_; }
    // The extents that lie in `segment`, in ascending order. Walks all extents.
    [[nodiscard]] std::vector<Extent> in(const log::Segment* segment) const;

    void reserve(std::size_t nodes) { map_.reserve(nodes); }
    // Stages bytes of a record, or zeros, in place of all extents of the range.
    void add(ByteRange range, const StagedPlace& place);
    // Stages a run: pieces of several records, gathered in memory. No byte of its range may be staged here.
    void add(std::unique_ptr<Gathered> run);
    void remove(ByteRange range);
    // Removes bytes of records older than `sequence`. After std::bad_alloc some may be gone.
    void remove_older(ByteRange range, std::uint64_t sequence);
    // Removes bytes that are in the target: those for which `drained(ByteRange, const StagedPlace&)` returns true, as
    // in ExtentMap::erase_if. Calls `removed(const StagedPlace&)` for them.
    template <class Drained, class Removed>
    void remove_drained(ByteRange range, Drained&& drained, Removed&& removed) {
        map_.erase_if(range, drained, [&](ByteRange lost, const StagedPlace& place) {
            removed(place);
            lose(lost, place);
        });
    }
    // Points the bytes of record `place.sequence` to its copy at `place`. After std::bad_alloc some may have moved.
    void relocate(ByteRange range, const StagedPlace& place);
    // Splits runs that have records both older and newer than `sequence` into extents of one record each. After
    // std::bad_alloc some may be split.
    void split_runs(ByteRange range, std::uint64_t sequence);

    // Moves an extent of `from`, or a part of one, here, where it replaces others. Its keeper's live bytes stay equal.
    void take(const Extent& extent, StagedExtents& from);
    // Moves all extents from `from` to here. After std::bad_alloc some may have moved.
    void take_all(StagedExtents& from);
    // Both have the same keepers.
    void swap(StagedExtents& other) noexcept;

    // Forgets all extents. The segments' live bytes, and `superseded_bytes`, keep their values.
    void clear() noexcept;

  private:
    std::uint64_t& count_of(const StagedPlace& place) noexcept { return place.zeros() ? zero_bytes_ : bytes_; }
    void lose(ByteRange range, const StagedPlace& place) noexcept;
    void supersede(ByteRange range, const StagedPlace& place) noexcept;
    // Adds an extent. Calls `displaced` for the pieces that it replaces.
    template <class Displaced>
    void put(ByteRange range, const StagedPlace& place, Displaced&& displaced);

    Keepers& keepers_;
    Map map_;
    std::uint64_t bytes_ = 0, zero_bytes_ = 0, superseded_bytes_ = 0;
};

}   // namespace forebay::index
