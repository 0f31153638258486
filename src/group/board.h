// The board: memory that all participants of one shared file map. It complements their logs.
// There is one board for each shared file and node, a file in the drainer's process directory. The board holds the
// node-wide sequence counter. For each participant it lists the segments of the participant's log, and marks the free
// ones. The drainer sleeps on the doorbell, a word of the board; participants raise it when they append or need room.
// Participants that need room sleep on `progress`; the drainer raises it when it has drained.
// Memory order: a participant stores a segment's index in its ring of segments before it raises `adopted`, the count of
// its segments (release). It publishes records by their segment's tail (log/file_log.h). The drainer raises `released`
// (release) once no byte of the segments below is needed. A participant appends a marker (truncate, commit) between two
// barriers of all participants, and raises `epoch` in between. So a reader of all tails that finds the same epoch
// before and after has a consistent cut: it has all records before the last marker. The frontier (log/frontier.h;
// `dead_raw` and `dead_metadata`) tells which segments may be released while other logs still have records that these
// supersede. The drainer raises it before `released`; readers read `released` first, and then the frontier. With
// durability=node the board also has the statements (group/statement.h). The drainer writes them to the file, not
// through the mapping. Ownership: `Board` owns the mapping; the drainer removes the file when it closes the shared
// file. Faults: if the device fails, memory of this process replaces the missing page (io::Replaceable) and the board
// is `lost`. This process and the others then no longer see each other's stores. A process must not rely on sequence
// numbers drawn then, `adopted` or `released`. It checks `lost` after each store that others must see. After a crash,
// recovery takes from the board the grouping of the logs, the frontier, and the participants. Layout:
// group/board_format.h.
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
    // Makes a new board in the empty file `file`. `ring` is at least the maximum number of segments of a participant.
    // `group` is the group's number, as in the open records of its logs.
    [[nodiscard]] static Result<Board> create(std::unique_ptr<io::File> file, std::uint64_t participants,
                                              std::uint64_t ring, std::uint64_t group = 0);
    // Opens another process's board. kCorrupt: the file is no board, or has another number of participants.
    [[nodiscard]] static Result<Board> open(std::unique_ptr<io::File> file, std::uint64_t participants);

    [[nodiscard]] bool lost() const noexcept { return replaceable_->replaced(); }
    // The error of a lost board. The constructor makes it, because memory may be short later.
    [[nodiscard]] const Status& loss() const noexcept { return loss_; }

    [[nodiscard]] BoardHeader& header() const noexcept { return *header_; }
    [[nodiscard]] BoardRow& row(std::uint64_t participant) const noexcept { return rows_[participant]; }
    // With durability=node, for the drainer: writes `statement` to the board and syncs the board.
    [[nodiscard]] Status state(const Statement& statement);
    [[nodiscard]] Status sync() { return file_->sync(); }
    // The place of segment number `order` of the participant's log, as an index into the participant's pool.
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
