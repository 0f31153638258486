// The extent index: which bytes of one file are staged, and where. It keeps held and ready extents.
// Two maps, newest on top:
//   held    written since the last commit, and not to be drained before the next one: metadata, and raw data
//           below the committed end of file (it may lie in space that was freed since the commit);
//   ready   free to drain: all committed bytes, and raw data beyond the committed end of file.
// A target may report a lost write late (io::FileTraits). Bytes that such a target has taken are *sent* until it
// confirms them. The target has them, so reads do not look here, but their segments stay: `resend` makes them ready.
// Invariants:
//   - where both maps cover a byte, the held one is newer;
//   - a committed byte that is not in the target yet stays in `ready` even while a held one hides it, so its
//     segment stays, and recovery finds it;
//   - pending_bytes is the sum of both maps' bytes that lie in segments;
//   - each segment's live_bytes is its share of the bytes that are held, ready or sent.
// Extents without a segment are zeros that a truncation left; the index counts them apart. An extent of a run
// (index/gathered.h) stands for the pieces of many records and has their highest number. The index splits it into
// pieces where one number is not enough. Only the index changes the segments' accounts: live bytes, pins and order. The
// index owns a run until no byte of it is staged or pinned.
// Not thread-safe. Errors: std::bad_alloc, after which the accounts agree with the maps. A call that changes one range
// or cuts the file changes all of it or nothing. `insert_unless_newer`, `commit`, `make_held_ready` and `relocate_held`
// may stop halfway, and do the rest when called again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "extent/extent_map.h"
#include "index/gathered.h"
#include "log/segment_pool.h"
#include "plan/merge.h"

namespace forebay::index {

struct StagedPlace {
    log::Segment* segment = nullptr;                    // null, without `gathered`: zeros
    std::uint64_t offset = 0;                           // in the segment or the run
    std::uint64_t sequence = 0;                         // of the record
    std::uint32_t generation = 0;                       // of the segment, lower half
    log::DataClass data_class = log::DataClass::kRaw;   // of the record
    Gathered* gathered = nullptr;

    [[nodiscard]] StagedPlace advanced(std::uint64_t bytes) const noexcept {
        return {segment, offset + bytes, sequence, generation, data_class, gathered};
    }
    [[nodiscard]] bool zeros() const noexcept { return segment == nullptr && gathered == nullptr; }
    [[nodiscard]] const std::byte* data() const noexcept {
        return gathered != nullptr ? gathered->at(offset) : segment == nullptr ? nullptr : segment->at(offset);
    }
    // The keeper for a plan; 0 for zeros.
    [[nodiscard]] plan::Keeper keeper() const noexcept;
};

class ExtentIndex {
  public:
    using Map = ExtentMap<StagedPlace>;

    ExtentIndex() = default;
    ~ExtentIndex() { clear(); }
    ExtentIndex(const ExtentIndex&) = delete;
    ExtentIndex& operator=(const ExtentIndex&) = delete;

    [[nodiscard]] std::uint64_t pending_bytes() const noexcept { return ready_bytes_ + held_bytes_; }
    [[nodiscard]] std::uint64_t held_bytes() const noexcept { return held_bytes_; }
    [[nodiscard]] std::uint64_t ready_bytes() const noexcept { return ready_bytes_; }
    [[nodiscard]] std::uint64_t superseded_bytes() const noexcept { return superseded_bytes_; }
    // Zeros of truncations that are not in the target yet, or not confirmed.
    [[nodiscard]] std::uint64_t zero_bytes() const noexcept { return zero_bytes_; }
    [[nodiscard]] bool ready_empty() const noexcept { return ready_.empty(); }
    [[nodiscard]] bool held_empty() const noexcept { return held_.empty(); }
    [[nodiscard]] bool empty() const noexcept { return ready_.empty() && held_.empty(); }

    // Stages bytes for `range`. Bytes below `hold_below` are held (`kOffsetMax` holds all, as for metadata), the rest
    // are ready. `committed_size` is the file's size at the last commit.
    void insert(ByteRange range, const StagedPlace& bytes, std::uint64_t hold_below, std::uint64_t committed_size);

    // Stages bytes as `insert` does, but only where no later record is staged. It serves records that come from several
    // logs in any order. Notes facts for the frontier in the segments (log/frontier.h).
    void insert_unless_newer(ByteRange range, const StagedPlace& bytes, std::uint64_t hold_below,
                             std::uint64_t committed_size);

    [[nodiscard]] bool nothing_in(ByteRange range) const { return !held_.overlaps(range) && !ready_.overlaps(range); }
    // Stages a run as ready. No byte of its range may be staged.
    void insert(std::unique_ptr<Gathered> gathered);

    // Cuts the file to `size`: [size, until) reads as zeros, and uncommitted bytes there are dropped.
    void truncate(std::uint64_t size, std::uint64_t until, std::uint64_t committed_size);

    // Makes all held extents ready, and drops all bytes at or beyond `size`.
    void commit(std::uint64_t size);

    // Makes all held extents ready without a commit, zeros too. Returns their bytes.
    std::uint64_t make_held_ready();

    // Forgets the staged bytes of `range`, which a bypassing write put into the target.
    void drop(ByteRange range);
    // Forgets the bytes of `range` that records older than `sequence` have staged.
    void drop_older(ByteRange range, std::uint64_t sequence);

    // Forgets, after a target write, the ready bytes that the write's pieces still match. Returns their number.
    std::uint64_t erase_drained(const plan::TargetWrite& write);
    // Makes them sent instead. After std::bad_alloc the rest stays ready.
    std::uint64_t send_drained(const plan::TargetWrite& write);
    [[nodiscard]] bool any_sent() const noexcept { return !sent_.empty() || !asked_.empty(); }
    [[nodiscard]] std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
    // The target is asked to confirm the bytes that are sent now. Returns false if it is being asked already.
    [[nodiscard]] bool begin_confirm() noexcept;
    // The answer. If the target has confirmed them, forgets them; otherwise the caller calls `resend`.
    void end_confirm(bool confirmed) noexcept;
    // The target has reported a failure, which may be that of any sent byte. All are ready again, except where newer
    // ones are. After std::bad_alloc the rest stays sent.
    void resend();
    // The highest number of a metadata record whose bytes `erase_drained` has forgotten, or 0.
    [[nodiscard]] std::uint64_t drained_metadata() const noexcept { return drained_metadata_; }

    // Pinned bytes stay in place until `unpin`. Pinning zeros has no effect.
    void pin(plan::Keeper keeper) noexcept;
    void unpin(plan::Keeper keeper) noexcept;
    [[nodiscard]] static bool is_gathered(plan::Keeper keeper) noexcept;
    // The EIO status for bytes at `address`, which `keeper` keeps (io/guarded_access.h).
    [[nodiscard]] static Status fault(plan::Keeper keeper, const std::byte* address);
    // Notes a bypass record in `segment`; see log::SegmentOrder.
    static void note_bypass(log::Segment& segment, std::uint64_t sequence, bool supersedes) noexcept {
        segment.order.note_bypass(sequence, supersedes);
    }

    // Visits the newest content of `range`: `staged(ByteRange, const StagedPlace&)` and `target(ByteRange)`, ascending.
    template <class Staged, class Target>
    void for_each_newest(ByteRange range, Staged&& staged, Target&& target) const {
        held_.for_each_and_gap(range, staged, [&](ByteRange gap) { ready_.for_each_and_gap(gap, staged, target); });
    }

    // Visits the ready content in the same way, without the held one.
    template <class Staged, class Target>
    void for_each_ready(ByteRange range, Staged&& staged, Target&& target) const {
        ready_.for_each_and_gap(range, staged, target);
    }

    // Forgets all extents. The segments' accounts keep their values.
    void clear() noexcept;

    // Visits ready extents from `offset` on; see ExtentMap::walk_from.
    template <class Visit>
    void walk_ready(std::uint64_t offset, Visit&& visit) const {
        ready_.walk_from(offset, visit);
    }

    // The held extents that lie in `segment`, in ascending order.
    [[nodiscard]] std::vector<Map::Extent> held_in(const log::Segment* segment) const;
    // Moves the bytes of that record to another place, as far as they are still held for `range`.
    void relocate_held(ByteRange range, const StagedPlace& bytes);

  private:
    void add(Map& map, std::uint64_t& total, ByteRange range, const StagedPlace& bytes);
    void remove(Map& map, std::uint64_t& total, ByteRange range, bool superseded);
    void lose(std::uint64_t& total, ByteRange range, const StagedPlace& bytes, bool superseded) noexcept;
    void move_held_to_ready();
    void take_apart(Map& map, ByteRange range, std::uint64_t sequence);
    void find_drained(const plan::TargetWrite& write);
    void resend(Map& map);
    void remove_sent(ByteRange range);
    void settle(Gathered& gathered, std::uint64_t bytes, std::uint64_t pins) noexcept;
    static void note_superseded(const StagedPlace& by, ByteRange range, std::uint64_t sequence) noexcept;

    std::vector<std::unique_ptr<Gathered>> gathered_;
    Map held_;
    Map ready_;
    Map sent_;
    Map asked_;   // sent before a sync that has not ended
    bool asking_ = false;
    std::uint64_t held_bytes_ = 0;
    std::uint64_t ready_bytes_ = 0;
    std::uint64_t sent_bytes_ = 0;         // of `sent_` and `asked_`
    std::uint64_t zero_bytes_ = 0;         // of all maps
    std::uint64_t superseded_bytes_ = 0;   // since the file was opened
    std::uint64_t drained_metadata_ = 0;
    std::vector<ByteRange> older_;     // scratch of insert_unless_newer
    std::vector<Map::Extent> parts_;   // scratch of take_apart, find_drained and resend
};

}   // namespace forebay::index
