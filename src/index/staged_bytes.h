// The staged bytes of one file in the process that drains it: those in the index, and those that wait for it.
// Writes to a file of one process enter the index at once. For a shared file the drainer first notes its own records
// (index/own_records.h), and finds the records of the others in their logs. The next thread that needs the index takes
// in both. Scattered small pieces of several records are staged as runs (index/gathered.h).
// Thread-safety: the file's lock guards all but `own`, which has its own. A separate lock would not do: a plan combines
// ready bytes and writes in flight, and a commit changes the staged bytes and the file's sizes in one step. Errors:
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

// Properties of the file that records change as the index takes them in.
struct FileBounds {
    std::uint64_t& logical_size;        // as the program sees it
    bool& dirty;                        // something changed since the last commit
    std::uint64_t committed_size = 0;   // at the last commit
    std::uint64_t target_size = 0;      // lower bound of the target's size
    bool several_nodes = false;         // metadata bypasses the log

    void reach(std::uint64_t end) const noexcept { logical_size = std::max(logical_size, end); }
};

class StagedBytes {
  public:
    [[nodiscard]] ExtentIndex& index() noexcept { return index_; }
    [[nodiscard]] const ExtentIndex& index() const noexcept { return index_; }
    // The records of a shared file that the drainer appended, and that are not in the index yet.
    [[nodiscard]] OwnRecords& own() noexcept { return own_; }
    [[nodiscard]] const OwnRecords& own() const noexcept { return own_; }

    [[nodiscard]] std::uint64_t pending_bytes() const noexcept { return index_.pending_bytes() + own_.bytes(); }
    [[nodiscard]] std::uint64_t ready_bytes() const noexcept { return index_.ready().bytes() + own_.ready_bytes(); }
    // Returns true if the target has every byte.
    [[nodiscard]] bool empty() const noexcept { return index_.empty() && own_.bytes() == 0; }

    // Takes in the records that were found in other logs, and those that this process noted. Returns false, and takes
    // in nothing, while all records are small pieces of less than `gather_below` bytes together. Those wait for
    // neighbours.
    bool take_in(group::RecordOrder& order, FileBounds& bounds, std::uint64_t run_max, std::uint64_t gather_below);
    // Takes in only the records that this process noted.
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
    OwnRecords::Batch own_batch_;   // taken from `own_` for the index
    Gatherer gatherer_;
    // Records of the current call that are in the index as runs.
    std::vector<std::pair<const log::Segment*, std::uint64_t>> gathered_;
};

}   // namespace forebay::index
