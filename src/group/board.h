// The board: the memory that the participants of one shared file map, beside their logs.
//
// One file per shared file and node, in the drainer's process directory. It holds the node-wide sequence counter and,
// for each participant, the segments of its log and which of them are free again. Processes sleep on two words of it:
// the drainer on the doorbell, which participants raise when they append or need room; participants that need room on
// progress, which the drainer raises when it has drained.
//
// Memory order: a participant stores the segment's place in its ring before it raises `adopted` (release). It publishes
// records by their segment's tail (log/file_log.h). The drainer raises `released` (release) once no byte of the
// segments below is needed. A marker (truncate, commit) is appended between two barriers of all participants, and
// `epoch` is raised in between. So a reader of all tails that finds the same epoch before and after has a consistent
// cut: everything before the last marker is complete. The frontier (log/frontier.h), `dead_raw` and `dead_metadata`,
// tells which segments may go although other logs stay. The drainer raises it before `released`; readers read it after
// that.
// With durability=node the board also has the statements (group/statement.h), which are written to the file, not
// through the mapping. Ownership: `Board` owns the mapping; the drainer removes the file when it closes the shared
// file. Faults: memory of this process replaces a page that cannot be had (the device failed; io::Replaceable), and the
// board is `lost`: this process and the others no longer see each other's stores. A process must not rely on numbers
// drawn then, nor on announcements and releases. After each store that others must see it checks `lost`. After a crash,
// recovery takes from the board which logs belong together, the frontier, and the participants. group/board_format.h
// has the layout.
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
    // `group` is the group's number, as in the open records of its logs.
    [[nodiscard]] static Result<Board> create(std::unique_ptr<io::File> file, std::uint64_t participants,
                                              std::uint64_t ring, std::uint64_t group = 0);
    // Opens a board that another process has made. kCorrupt: it is no board, or is for another number of participants.
    [[nodiscard]] static Result<Board> open(std::unique_ptr<io::File> file, std::uint64_t participants);

    [[nodiscard]] bool lost() const noexcept { return replaceable_->replaced(); }
    // The error of a lost board. Made in advance, as memory may be short by then.
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
