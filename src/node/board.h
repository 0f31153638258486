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
// Ownership: `Board` owns the mapping; the drainer removes the file when it closes the shared file.
// After a crash: recovery takes the frontier from here.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "io/file.h"
#include "io/futex.h"
#include "log/format.h"

namespace forebay::node {

// What other nodes may read of a board (one-sided, so the layout counts): which parts of the file may hold
// bytes that are staged here and not in the target yet. A ticket is drawn for each record once it is
// visible; `marks` keeps the last one for each region of the file, `clean` the one up to which everything
// has been drained.
struct Exposed {
    static constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << 20;
    static constexpr std::uint64_t kMarks = 4096;   // regions share marks: too much waiting, never too little
    std::atomic<std::uint64_t> clean{0};
    std::array<std::atomic<std::uint64_t>, kMarks> marks{};
};

// Whether the drainer waits for records whose numbers are drawn already.
enum class Awaited : std::uint32_t {
    kNothing,
    kRecords,    // the drainer has followed later ones, and cannot drain them yet
    kArrived,    // one of them has been published since
};

struct BoardHeader {
    std::uint64_t magic = 0, version = 0;
    std::uint64_t participants = 0;
    std::uint64_t ring = 0;                                    // segments of one log that can be in use at a time
    alignas(64) std::atomic<std::uint64_t> sequence{0};        // the next one
    std::atomic<std::uint64_t> dead_raw{0};                    // the frontier: lower numbers no longer count
    std::atomic<std::uint64_t> dead_metadata{0};
    std::atomic<std::uint64_t> committed_size{0};              // of the file, at its last commit
    alignas(64) std::atomic<std::uint64_t> epoch{0};           // markers so far
    alignas(64) std::atomic<std::uint64_t> appended{0};        // payload bytes, by all but the drainer
    std::atomic<std::uint64_t> followed{0};                    // of those, seen by the drainer
    std::atomic<std::uint64_t> tickets{0};                     // drawn so far (several nodes only)
    std::atomic<std::uint64_t> followed_tickets{0};            // of those, seen by the drainer
    alignas(64) io::SharedWord doorbell{0};
    std::atomic<std::uint32_t> listening{0};                   // the drainer waits for the doorbell
    std::atomic<std::uint32_t> wants_room{0};                  // participants that wait for room
    std::atomic<Awaited> awaited{Awaited::kNothing};
    alignas(64) io::SharedWord progress{0};
    std::atomic<std::uint32_t> failed{0};                      // errno: the drainer cannot write the target
    std::atomic<std::uint32_t> finished{0};                    // the drainer is done with the file
    alignas(64) Exposed exposed;
};

struct alignas(64) BoardRow {
    std::atomic<std::uint64_t> adopted{0};                     // segments this log has ever had
    std::atomic<std::uint64_t> wants_room{0};                  // waits: even its newest segment may go
    alignas(64) std::atomic<std::uint64_t> drawing{0};         // a number from here on may be without its record yet; 0 none
    alignas(64) std::atomic<std::uint64_t> released{0};        // of those, the first so many are free again
};

class Board {
  public:
    // A new board in `file`, which is empty. `ring` is at least the most segments a participant can have.
    [[nodiscard]] static Result<Board> create(std::unique_ptr<io::File> file, std::uint64_t participants,
                                              std::uint64_t ring);
    // One that another process has made. kCorrupt: it is none, or one for another number of participants.
    [[nodiscard]] static Result<Board> open(std::unique_ptr<io::File> file, std::uint64_t participants);

    [[nodiscard]] BoardHeader& header() const noexcept { return *header_; }
    [[nodiscard]] BoardRow& row(std::uint64_t participant) const noexcept { return rows_[participant]; }
    // Which segment of the participant's pool is number `order` of its log.
    [[nodiscard]] std::atomic<std::uint64_t>& place(std::uint64_t participant, std::uint64_t order) const noexcept {
        return rings_[participant * header_->ring + order % header_->ring];
    }

  private:
    Board(std::unique_ptr<io::File> file, std::unique_ptr<io::Mapping> mapping, std::uint64_t participants);

    std::unique_ptr<io::File> file_;
    std::unique_ptr<io::Mapping> mapping_;
    BoardHeader* header_;
    BoardRow* rows_;
    std::atomic<std::uint64_t>* rings_;
};

}   // namespace forebay::node
