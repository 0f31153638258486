// Reads the log file of a dead process: the files that the process staged, and their records.
// A damaged record ends its segment. Later segments of the log still count, and the scan reports all damage
// (docs/log-format.md, "Reading a log that may be damaged").
// Ownership: the caller gets copies. Blocks on reads. The owner of the log must not change it during the scan.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/file.h"
#include "log/format.h"

namespace forebay::log {

// A record without its payload. A payload without checksum may be wrong; the boot id decides whether to trust it.
struct ScannedRecord {
    RecordHeader header;
    std::vector<ByteRange> extents;
    std::uint64_t payload_at = 0;   // in the file
};

// A segment of a durable log of several processes, and its valid part.
struct ScannedPiece {
    std::uint64_t order = 0, begin = 0;   // begin: in the file
    std::uint64_t right_to = 0;           // end of the valid part, from the segment's beginning
    bool whole = false;                   // `right_to` is the segment's tail
};

// The readable part of one open file's log.
struct ScannedLog {
    area::ProcessIdentity process;
    std::uint64_t log = 0;   // number within the process
    OpenPayload target;
    // The last commit, from its record or from the open record of a later segment. With sequence 0 there was none, and
    // the size is that at open.
    std::uint64_t committed_size = 0, commit_sequence = 0;
    // Commits were on the device before they returned, so damage after the last one concerns nothing promised.
    // `records` then has the records of the last commit, and later data records, only to count them.
    bool durable = false;
    std::vector<ScannedRecord> records;    // ascending sequence; without the open records
    std::uint64_t commit_time_ns = 0;      // of the last commit; 0: none
    std::vector<std::uint64_t> segments;   // offsets in the file, oldest first
    // The target's state as the process last noted it; none if it noted none, or if it is unreadable. The next state
    // goes into the segment at `state_at`, with use `state_use`.
    std::optional<TargetState> state;
    std::uint64_t state_at = 0, state_use = 0;
    // Set if a record could not be read. The record came after the commit of this number; 0: unknown.
    std::optional<std::uint64_t> lost_after;
    // In a durable log of several processes `records` has all readable ones. The board's statement (group/statement.h)
    // tells the commit and the records that count.
    std::vector<ScannedPiece> pieces;
    std::uint64_t segment_bytes = 0;
    std::uint64_t unread_bytes = 0;   // below the tails, from the first damage on
    bool hides_record = false;        // a record is among these or behind a tail, or a header is unreadable
    bool hides_commit = false;        // a commit is among these records
    // All damage. A segment with an unreadable header may belong to any log, so every log reports it.
    std::vector<Status> damage;
};

// The logs in `file`, by process and number; none if no segment is in use. Verifies payloads, and leaves them in the
// file. kCorrupt: no segment header is readable. kUnsupported: another version wrote the file.
[[nodiscard]] Result<std::vector<ScannedLog>> scan(io::File& file);

// The targets of the logs in `file`, from open records. Skips unreadable segments; `unread` gets the first reason. Also
// reports an empty segment that is older than another segment of its log, unless the log is durable.
[[nodiscard]] Result<std::vector<OpenPayload>> scan_targets(io::File& file, Status* unread = nullptr);

// Stores `state`, whose serial must exceed the one of `log`, in the log's newest segment.
[[nodiscard]] Status store_target_state(io::File& file, const ScannedLog& log, const TargetState& state);

// Frees the segments of a dead process's log, oldest first. With `durable` they stay free after a loss of power. After
// a loss of power during this call, recovery may replay the log once more.
[[nodiscard]] Status free_segments(io::File& file, std::span<const std::uint64_t> oldest_first, bool durable);

}   // namespace forebay::log
