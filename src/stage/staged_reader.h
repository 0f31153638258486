// Reads of a staged file: staged bytes on top of the target. A read decides under the file's lock which pieces come
// from the log and which from the target. It copies and reads without the lock. Meanwhile the segments of a drainer are
// pinned. A process that does not drain checks after the copy that the segments were not used again, and otherwise
// starts over. While nothing is staged, a read takes no lock (stage/unstaged_target.h). Thread-safety: all calls from
// any thread, without a lock. All calls block on the log and the target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "extent/range.h"
#include "index/staged_bytes.h"
#include "io/file.h"
#include "plan/read_merge.h"
#include "stage/file_state.h"
#include "stage/staging_log.h"

namespace forebay::stage {

// Keeps the state of a file's last commit while the file goes on (StagedReader::copy_committed).
class CommitKeeper {
  public:
    struct State {
        std::uint64_t size = 0;
        std::uint64_t given_up = 0;   // bytes that ever reached the target before their commit (the counter)
        // Ranges that the target lacks: staged, or read as zeros. Ascending, disjoint, below `size`.
        std::vector<ByteRange> elsewhere;
    };
    virtual ~CommitKeeper() = default;
    // Called under the file's lock: must neither block nor call the file. All below `size` that is not `elsewhere` is
    // in the target, until the target is written there or cut. A failure ends the copy.
    virtual Status begin(State state) = 0;
    // Called without that lock, for each staged piece. The ranges of `elsewhere` that do not come read as zeros.
    virtual Status take(std::uint64_t offset, io::Bytes bytes) = 0;
};

class StagedReader {
  public:
    struct ReadPart {
        std::uint64_t offset = 0;
        io::MutableBytes into;
    };

    StagedReader(FileState& file, StagingLog& log) noexcept : file_(file), log_(log) {}

    // Fills the parts, in any order, with the newest content; beyond the end of the file with zeros, as HDF5 expects of
    // a driver. Pieces near each other in the target are read together, and several at a time if it is slow.
    Status read(std::span<const ReadPart> parts);
    // Gives the state of the last commit to `keeper`, whatever was written since. kUnavailable: that state is not
    // known, as writes bypass the log, or other processes write the file too.
    Status copy_committed(CommitKeeper& keeper);

  private:
    struct CopyPlan;

    Status read_some(std::span<const ReadPart> parts);
    // Reads without the lock, if nothing is staged. Returns false if something may be.
    [[nodiscard]] bool read_unstaged(const ReadPart& part, Status& outcome);
    void plan_copy(const ReadPart& part, CopyPlan& plan) const REQUIRES(file_.mutex());
    void pin(const CopyPlan& plan) REQUIRES(file_.mutex());
    void unpin(const CopyPlan& plan) EXCLUDES(file_.mutex());
    [[nodiscard]] static bool unchanged(const index::StagedPlace& bytes) noexcept;
    static Status copy_staged(const CopyPlan& plan, bool& intact);
    Status read_target(std::shared_ptr<io::File> target, std::vector<plan::ReadPiece> pieces, std::size_t threads);

    FileState& file_;
    StagingLog& log_;
};

}   // namespace forebay::stage
