// The board: the memory that the participants of one shared file map, beside their logs.
//
// One file per shared file and node, in the drainer's process directory. It holds the node-wide sequence
// counter, for each participant which segments its log consists of and which are free again, and the two
// words to wait for: the doorbell (somebody has appended, or wants room: for the drainer) and progress
// (something was drained: for those who wait for room).
//
// Memory order: a participant stores the segment's place in its ring before it raises `adopted` (release),
// and publishes records by their segment's tail (log/file_log.h). The drainer raises `released` (release)
// once nothing of the segments below is needed. A marker (truncate, commit) is appended between two
// barriers of all participants, and `epoch` is raised in between; so whoever reads all tails, and finds the
// same epoch before and after, has a cut in which everything before the last marker is complete.
// Which segments may go although other logs stay is told by the frontier (log/frontier.h): `dead_raw` and
// `dead_metadata`. The drainer raises it before it raises `released`, readers read it after `released`.
// With durability=node the statements (group/statement.h) are on it, too; they are written to the file, not through the
// mapping. Ownership: `Board` owns the mapping; the drainer removes the file when it closes the shared file. Faults: a
// page of it that cannot be had (the device failed) is replaced by memory of this process (io::Replaceable), and the
// board is `lost`: what is stored there from now on no other process sees, and the other way round. Nothing that was
// drawn, announced or released then may be relied on; whoever stores something that others have to see looks at `lost`
// afterwards. After a crash: recovery takes from here which logs belong together, the frontier, and who took part. What
// the memory consists of is in group/board_format.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "group/board_format.h"
#include "io/file.h"
#include "io/guarded_access.h"

namespace forebay::group {

class Board {
  public:
    // A new board in `file`, which is empty. `ring` is at least the most segments a participant can have.
    // `group` is what the logs' open records call those who belong together.
    [[nodiscard]] static Result<Board> create(std::unique_ptr<io::File> file, std::uint64_t participants,
                                              std::uint64_t ring, std::uint64_t group = 0);
    // One that another process has made. kCorrupt: it is none, or one for another number of participants.
    [[nodiscard]] static Result<Board> open(std::unique_ptr<io::File> file, std::uint64_t participants);

    [[nodiscard]] bool lost() const noexcept { return replaceable_->replaced(); }
    // What a board that is lost is told as: made beforehand, as there may be no memory then.
    [[nodiscard]] const Status& loss() const noexcept { return loss_; }

    [[nodiscard]] BoardHeader& header() const noexcept { return *header_; }
    [[nodiscard]] BoardRow& row(std::uint64_t participant) const noexcept { return rows_[participant]; }
    // With durability=node, by the drainer: the last word on what is certain. On return it is on the device.
    [[nodiscard]] Status state(const Statement& statement);
    [[nodiscard]] Status sync() { return file_->sync(); }
    // Which segment of the participant's pool is number `order` of its log.
    [[nodiscard]] std::atomic<std::uint64_t>& place(std::uint64_t participant, std::uint64_t order) const noexcept {
        return rings_[participant * ring_ + order % ring_];
    }

  private:
    Board(std::unique_ptr<io::File> file, std::unique_ptr<io::Mapping> mapping);
    void lay_out(std::uint64_t participants, std::uint64_t ring) noexcept;

    std::unique_ptr<io::File> file_;
    std::unique_ptr<io::Mapping> mapping_;
    std::unique_ptr<io::Replaceable> replaceable_;
    Status loss_;
    BoardHeader* header_;
    std::uint64_t ring_ = 1;   // as in the header, which may be lost
    BoardRow* rows_ = nullptr;
    std::atomic<std::uint64_t>* rings_ = nullptr;
};

}   // namespace forebay::group
