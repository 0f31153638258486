// Reading the log file of a process that is gone: which open files it staged, and what was left of them.
//
// Believes nothing that it reads (docs/log-format.md, "Reading a log that may be damaged"): a record that
// is not right ends its segment, later segments of the same log still count, and everything that was
// wrong is told. The caller holds all records in memory at once; with copies of their payloads, up to the size of the
// file. Blocks on reads of the file. The process that owns the log must not change it meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/file.h"
#include "log/format.h"

namespace forebay::log {

// An owned copy of one record. A payload without checksum is what the segment held: whether to trust it
// is decided by the boot id.
struct ScannedRecord {
    RecordHeader header;
    std::vector<ByteRange> extents;
    std::vector<std::byte> payload;   // empty with Payloads::kLeft
    std::uint64_t payload_at = 0;     // where it is in the file
};

// Of a durable log of several processes: a segment, and how far it is right.
struct ScannedPiece {
    std::uint64_t order = 0, begin = 0;   // begin: in the file
    std::uint64_t right_to = 0;           // from the segment's beginning
    bool whole = false;                   // that is its tail
};

// What is left of the log of one open file.
struct ScannedLog {
    area::ProcessIdentity process;
    std::uint64_t log = 0;   // number within the process
    OpenPayload target;
    // The last commit: as its record says, or the open record of a later segment. Sequence 0: there was
    // none yet, and the size is that at open.
    std::uint64_t committed_size = 0, commit_sequence = 0;
    // Its commits were on the device before they returned: what is wrong behind the last one was never promised.
    // Then `records` has what the last commit promises, and of what follows it data only, to be counted.
    bool durable = false;
    std::vector<ScannedRecord> records;    // ascending sequence; without the open records
    std::uint64_t commit_time_ns = 0;      // of the last commit; 0: there was none
    std::vector<std::uint64_t> segments;   // where in the file, oldest first
    // What the process knew of the target; none: nothing, or it cannot be read. And where the next one goes: the
    // segment's place in the file, and its use.
    std::optional<TargetState> state;
    std::uint64_t state_at = 0, state_use = 0;
    // Something could not be read. It was appended after the commit of this number, the last one that was known
    // at that place; 0: nobody can tell.
    std::optional<std::uint64_t> lost_after;
    // Of a durable log of several processes `records` has all that could be read: which of them count tells the
    // statement on the board (group/statement.h), and so it does the commit.
    std::vector<ScannedPiece> pieces;
    std::uint64_t segment_bytes = 0;
    std::uint64_t unread_bytes = 0;   // below the tails, from what was wrong on
    // What was wrong. A segment whose header is unreadable may have been anybody's: every log says so.
    std::vector<Status> damage;
};

// Payloads are checked either way; without copies of them a scan takes little memory.
enum class Payloads : std::uint8_t { kCopied, kLeft };

// The logs in `file`, by process and number. A file without segments in use has none. kCorrupt: nothing in
// it could be read as a log. kUnsupported: another version wrote it. Failures to read are passed on.
[[nodiscard]] Result<std::vector<ScannedLog>> scan(io::File& file, Payloads payloads = Payloads::kCopied);

// Which files the logs in `file` are about: the open records of the segments, and nothing else, are read. Segments that
// cannot be read are passed over; the first reason goes to `unread`.
[[nodiscard]] Result<std::vector<OpenPayload>> scan_targets(io::File& file, Status* unread = nullptr);

// Stores what is known of the target now beside what `log` had of it, with a serial higher than that.
[[nodiscard]] Status store_target_state(io::File& file, const ScannedLog& log, const TargetState& state);

// Makes the segments of a log free, oldest first. The process that owned it is gone. With `durable` they stay so after
// a loss of power, and what a loss of power leaves while this is under way may be replayed once more.
[[nodiscard]] Status free_segments(io::File& file, std::span<const std::uint64_t> oldest_first, bool durable);

}   // namespace forebay::log
