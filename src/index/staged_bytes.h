// The bytes of one file that are staged, where this process drains them: those that the index has, and those that are
// on their way into it.
//
// Of a file that is not shared every write goes into the index at once. Of a shared one the drainer's own records are
// noted first (index/own_records.h), and those of the others are found in their logs; whoever next needs the index
// takes both in together. Scattered small pieces of several records are staged as the runs that they are together
// (index/gathered.h).
//
// Thread-safety: guarded by the file's lock, but for `own`, which has its own. It has no lock for itself: a plan is
// made of what is ready and what is in flight, and a commit changes what is staged and the sizes of the file in one
// step. Errors: std::bad_alloc; what was not taken in comes again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "group/record_order.h"
#include "index/extent_index.h"
#include "index/gathered.h"
#include "index/own_records.h"

namespace forebay::index {

// What the records that are taken in say of the file as a whole.
struct FileBounds {
    std::uint64_t& logical_size;        // as the program sees it
    bool& dirty;                        // something changed since the last commit
    std::uint64_t committed_size = 0;   // at the last commit
    std::uint64_t target_size = 0;      // of the target, at least
    bool several_nodes = false;         // metadata is in the target at once

    void reach(std::uint64_t end) const noexcept { logical_size = std::max(logical_size, end); }
};

class StagedBytes {
  public:
    [[nodiscard]] ExtentIndex& index() noexcept { return index_; }
    [[nodiscard]] const ExtentIndex& index() const noexcept { return index_; }
    // What the drainer of a shared file has appended, and is not in the index yet.
    [[nodiscard]] OwnRecords& own() noexcept { return own_; }
    [[nodiscard]] const OwnRecords& own() const noexcept { return own_; }

    [[nodiscard]] std::uint64_t pending_bytes() const noexcept { return index_.pending_bytes() + own_.bytes(); }
    [[nodiscard]] std::uint64_t ready_bytes() const noexcept { return index_.ready_bytes() + own_.ready_bytes(); }
    // Nothing is left that the target does not have.
    [[nodiscard]] bool empty() const noexcept { return index_.empty() && own_.bytes() == 0; }

    // Takes in what was found in the logs of others, and what this process has noted. `gather_below`: small pieces wait
    // for their neighbours until there are so many bytes of them, and then false comes back; 0: they do not.
    bool take_in(group::RecordOrder& order, FileBounds& bounds, std::uint64_t run_max, std::uint64_t gather_below);
    // Only what this process has noted.
    void take_in_own(FileBounds& bounds);

  private:
    struct Offered;
    void take_in(const group::RecordOrder::Record& record, FileBounds& bounds);
    void take_in_own_batch(FileBounds& bounds);
    Offered offer(group::RecordOrder& order, FileBounds& bounds);
    void gather(const std::vector<Gatherer::Record>& records, const FileBounds& bounds, std::uint64_t run_max);
    [[nodiscard]] bool is_gathered(const log::Segment* segment, std::uint64_t payload) const noexcept;

    ExtentIndex index_;
    OwnRecords own_;
    OwnRecords::Batch own_batch_;   // of those, being taken into the index
    Gatherer gatherer_;
    // Of what is being taken in: in the index already.
    std::vector<std::pair<const log::Segment*, std::uint64_t>> gathered_;
};

}   // namespace forebay::index
