// The extent index: which bytes of one file are staged, and where. Its parts:
//
//   held    written since the last commit, and not to be drained before the next one: metadata, and raw data
//           below the committed end of file (it may lie in space that was freed since the commit)
//   ready   free to drain: all committed bytes, and raw data beyond the committed end of file
//   sent    taken by a target that may report a lost write late, and not confirmed    index/sent_extents.h
//   keepers the segments and runs that keep all these bytes                           index/keepers.h
//
// Reads look into held, then ready: the target has the sent bytes. `resend` makes sent bytes ready. Invariants:
//   - where held and ready extents cover a byte, the held one is newer;
//   - a committed byte that is not in the target yet stays ready even while a held one hides it, so its segment
//     stays, and recovery finds it;
//   - each segment's live bytes are its share of the bytes that are held, ready or sent.
// An extent of a run (index/gathered.h) stands for the pieces of many records and has their highest number. The index
// splits it into pieces where one number is not enough.
// Not thread-safe. Errors: std::bad_alloc, after which the accounts agree with the extents. A call that changes one
// range or cuts the file changes all of it or nothing. `insert_unless_newer`, `commit`, `make_held_ready` and
// `relocate_held` may stop halfway, and do the rest when called again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "index/keepers.h"
#include "index/sent_extents.h"
#include "index/staged_extents.h"
#include "plan/merge.h"

namespace forebay::index {

class ExtentIndex {
  public:
    [[nodiscard]] const StagedExtents& held() const noexcept { return held_; }
    [[nodiscard]] const StagedExtents& ready() const noexcept { return ready_; }
    [[nodiscard]] SentExtents& sent() noexcept { return sent_; }
    [[nodiscard]] const SentExtents& sent() const noexcept { return sent_; }
    [[nodiscard]] Keepers& keepers() noexcept { return keepers_; }

    [[nodiscard]] bool empty() const noexcept { return ready_.empty() && held_.empty(); }
    // Held and ready bytes, without zeros.
    [[nodiscard]] std::uint64_t pending_bytes() const noexcept { return ready_.bytes() + held_.bytes(); }
    // Bytes that later ones have superseded since the file was opened.
    [[nodiscard]] std::uint64_t superseded_bytes() const noexcept {
        return held_.superseded_bytes() + ready_.superseded_bytes() + overtaken_bytes_;
    }
    // Zeros of truncations that are not in the target yet, or not confirmed.
    [[nodiscard]] std::uint64_t zero_bytes() const noexcept {
        return held_.zero_bytes() + ready_.zero_bytes() + sent_.zero_bytes();
    }

    // Stages bytes for `range`. Bytes below `hold_below` are held (`kOffsetMax` holds all, as for metadata), the rest
    // are ready. `committed_size` is the file's size at the last commit.
    void insert(ByteRange range, const StagedPlace& bytes, std::uint64_t hold_below, std::uint64_t committed_size);

    // Stages bytes as `insert` does, but only where no later record is staged. It serves records that come from several
    // logs in any order. Notes facts for the frontier in the segments (log/frontier.h).
    void insert_unless_newer(ByteRange range, const StagedPlace& bytes, std::uint64_t hold_below,
                             std::uint64_t committed_size);

    [[nodiscard]] bool nothing_in(ByteRange range) const {
        return !held_.map().overlaps(range) && !ready_.map().overlaps(range);
    }
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
    // The target has reported a failure, which may be that of any sent byte. All are ready again, except where newer
    // ones are. After std::bad_alloc the rest stays sent.
    void resend();
    // The highest number of a metadata record whose bytes have drained, or 0.
    [[nodiscard]] std::uint64_t drained_metadata() const noexcept { return drained_metadata_; }

    // Visits the newest content of `range`: `staged(ByteRange, const StagedPlace&)` and `target(ByteRange)`, ascending.
    template <class Staged, class Target>
    void for_each_newest(ByteRange range, Staged&& staged, Target&& target) const {
        held_.map().for_each_and_gap(range, staged,
                                     [&](ByteRange gap) { ready_.map().for_each_and_gap(gap, staged, target); });
    }

    // Forgets all extents. The segments' accounts keep their values.
    void clear() noexcept;

    // Moves the bytes of that record to another place, as far as they are still held for `range`.
    void relocate_held(ByteRange range, const StagedPlace& bytes);

  private:
    void note_drained(const StagedPlace& place) noexcept;

    Keepers keepers_;
    StagedExtents held_{keepers_};
    StagedExtents ready_{keepers_};
    SentExtents sent_{keepers_};
    std::uint64_t overtaken_bytes_ = 0;   // of records that were found after newer ones
    std::uint64_t drained_metadata_ = 0;
    std::vector<ByteRange> older_;   // scratch of insert_unless_newer
};

}   // namespace forebay::index
