// The format of a board, the file that the participants of one shared file map (group/board.h). Recovery finds it in
// the drainer's process directory. The byte order is native, because the machine that wrote a board also reads it. The
// magic and the version guard it. After a crash recovery uses `group`, the frontier (`dead_raw`, `dead_metadata`) and
// the participants. For a durable group recovery uses the last statement (group/statement.h). It then uses the frontier
// only to see if that is beyond all records.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "group/bypass_count.h"
#include "group/statement.h"
#include "io/file.h"
#include "io/futex.h"
#include "log/format.h"
#include "log/frontier.h"

namespace forebay::group {

inline constexpr std::uint64_t kBoardMagic = 0x314452414f424246;   // "FBBOARD1" in memory
inline constexpr std::uint64_t kBoardVersion = 2;

// Returns "board-7" for the drainer's log number 7. The file is in the drainer's directory.
[[nodiscard]] std::string board_name(std::uint64_t log);
// Returns 7 for "board-7", and nullopt for a name that `board_name` never returns: another program made that file.
[[nodiscard]] std::optional<std::uint64_t> log_of_board(std::string_view name) noexcept;

// The part of a board that other nodes may read (one-sided, so the layout counts). It tells which parts of the file may
// have bytes that are staged here and not in the target yet. Each record draws a ticket once it is visible. `marks` has
// the last ticket of each region of the file. The drainer has drained all records up to ticket `clean`. With one node,
// a mark of 1 means: bytes of the region may have been staged since the board was made.
struct Exposed {
    static constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << 20;
    static constexpr std::uint64_t kMarks = 4096;   // shared by regions: may wait too long, never too short
    std::atomic<std::uint64_t> clean{0};
    static constexpr std::uint64_t kCannotDrain =
        UINT64_MAX;   // in `clean`: the drainer cannot write the file, so waiting is useless
    std::array<std::atomic<std::uint64_t>, kMarks> marks{};
};

// Tells if the drainer waits for records whose numbers are drawn already.
enum class Awaited : std::uint32_t {
    kNothing,
    kRecords,   // the drainer has followed later ones, and cannot drain them yet
    kArrived,   // a process has published one of them since
};

// The destination of writes after the drainer has failed.
enum class Bypass : std::uint32_t {
    kNo,
    kSoon,   // target writes of older bytes are still in flight
    kNow,    // to the target: the drainer writes nothing until the file is closed
};

// The bytes and tickets of the participants' records, and how many of them the drainer has seen.
struct alignas(64) Arrivals {
    std::atomic<std::uint64_t> appended{0};   // payload bytes, by all but the drainer
    std::atomic<std::uint64_t> followed{0};
    std::atomic<std::uint64_t> tickets{0};   // drawn so far (several nodes only)
    std::atomic<std::uint64_t> followed_tickets{0};
};

// The word that the drainer sleeps on, and what is worth raising it for.
struct alignas(64) Bell {
    io::SharedWord doorbell{0};
    std::atomic<std::uint32_t> listening{0};    // the drainer waits for the doorbell
    std::atomic<std::uint32_t> wants_room{0};   // participants that wait for room
    std::atomic<Awaited> awaited{Awaited::kNothing};
};

struct BoardHeader {
    std::uint64_t magic = 0, version = 0;
    std::uint64_t group = 0;   // as in the open records of the logs (log/format.h)
    area::BootId boot_id{};    // of the participants
    std::uint64_t participants = 0;
    std::uint64_t ring = 0;                               // maximum number of segments of one log in use
    alignas(64) std::atomic<std::uint64_t> sequence{0};   // the next number
    std::atomic<std::uint64_t> dead_raw{0};               // the frontier: lower numbers no longer count
    std::atomic<std::uint64_t> dead_metadata{0};
    std::atomic<std::uint64_t> committed_size{0};      // of the file, at its last commit
    std::uint64_t team = 0;                            // of all boards of the team, with several nodes; else 0
    std::uint64_t nodes = 1;                           // number of nodes
    alignas(64) std::atomic<std::uint64_t> epoch{0};   // markers so far
    Arrivals arrivals;
    Bell bell;
    alignas(64) io::SharedWord progress{0};
    std::atomic<std::uint32_t> failed{0};      // errno of the drainer's failed target write; else 0
    std::atomic<std::uint32_t> finished{0};    // 1: the drainer is done with the file; 2: with bytes missing
    std::atomic<Bypass> bypass{Bypass::kNo};   // after a failure, with on_error=through
    std::atomic<std::uint64_t> memory_pace{
        0};                 // of a target as fast as the log (drain/target_pace.h), times participants; else 0
    BypassCount bypasses;   // by all participants
    alignas(64) Exposed exposed;
};

struct alignas(64) BoardRow {
    std::atomic<std::uint64_t> pid{0}, start_ticks{0};   // identity of the process
    std::atomic<std::uint64_t> adopted{0};               // segments that this log has ever had
    std::atomic<std::uint64_t> wants_room{
        0};   // 1: waits for room, and its newest segment may go too; from 2 on: Ending::Phase
    std::atomic<std::uint64_t> released_before_wait{0};   // during such a wait, 1 + `released` at its begin; else 0
    alignas(64) std::atomic<std::uint64_t> drawing{0};    // 0, or the lowest number whose record may be missing yet
    alignas(64) std::atomic<std::uint64_t> released{0};   // segments with a lower order are free
    std::atomic<std::uint64_t> synced{0};   // durability=node: on the device up to here (log::log_position)
};

// The layout: the rows follow the header, then come the statements, and the rings last.
[[nodiscard]] std::uint64_t statements_begin(std::uint64_t participants) noexcept;
[[nodiscard]] std::uint64_t rings_begin(std::uint64_t participants) noexcept;
[[nodiscard]] std::uint64_t board_bytes(std::uint64_t participants, std::uint64_t ring) noexcept;

// The fields of a board that recovery needs.
struct BoardView {
    std::uint64_t group = 0;
    std::uint64_t team = 0, nodes = 1;
    log::Frontier frontier;
    std::vector<area::ProcessIdentity> participants;
    std::uint64_t unfollowed_bytes = 0;   // payload that the live drainer has not found yet
    // The processes whose logs have segments with records that may still count: one for each log.
    std::vector<area::ProcessIdentity> writers;
    bool begun = false;                   // the drainer's log has had a segment; no participant writes before that
    std::optional<Statement> statement;   // of a durable group
};
// Reads a board and checks all that it reads. kCorrupt: the file is no board. kUnsupported: the board has another
// version. kNotFound: its maker died before the board was complete.
[[nodiscard]] Result<BoardView> read_board(io::File& file);

// Moves the board's frontier beyond all records, so that no record of the file's logs counts.
[[nodiscard]] Status retire_board(io::File& file);

}   // namespace forebay::group
