// The staged bytes of one file in the process that drains it: those in the index, and those on their way into it.
//
// Writes to a file that is not shared go into the index at once. Of a shared file the drainer notes its own records
// first (index/own_records.h), and finds those of the others in their logs. The next thread that needs the index takes
// in both. Scattered small pieces of several records are staged as runs (index/gathered.h).
//
// Thread-safety: the file's lock guards all but `own`, which has its own. A separate lock would not do: a plan is made
// of ready bytes and writes in flight, and a commit changes the staged bytes and the file's sizes in one step. Errors:
// std::bad_alloc; the next call takes in the rest.
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

    // Takes in the records that were found in other logs, and those that this process has noted. Returns false and
    // takes in nothing while only small pieces have come, less than `gather_below` bytes in all: they wait for
    // neighbours.
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
