// Reading the log file of a process that is gone: which open files it staged, and what was left of them.
//
// Believes nothing that it reads (docs/log-format.md, "Reading a log that may be damaged"): a record that
// is not right ends its segment, later segments of the same log still count, and everything that was
// wrong is told. The caller holds all records in memory at once, up to the size of the file.
// Blocks on reads of the file. The process that owns the log must not change it meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "io/file.h"
#include "log/format.h"

namespace forebay::log {

// An owned copy of one record. A payload without checksum is what the segment held: whether to trust it
// is decided by the boot id.
struct ScannedRecord {
    RecordHeader header;
    std::vector<ByteRange> extents;
    std::vector<std::byte> payload;
};

// What is left of the log of one open file.
struct ScannedLog {
    ProcessIdentity process;
    std::uint64_t log = 0;                 // number within the process
    OpenPayload target;
    // The last commit: as its record says, or the open record of a later segment. Sequence 0: there was
    // none yet, and the size is that at open.
    std::uint64_t committed_size = 0, commit_sequence = 0;
    std::vector<ScannedRecord> records;    // ascending sequence; without the open records
    // What was wrong. A segment whose header is unreadable may have been anybody's: every log says so.
    std::vector<Status> damage;
};

// The logs in `file`, by process and number. A file without segments in use has none. kCorrupt: nothing in
// it could be read as a log. kUnsupported: another version wrote it. Failures to read are passed on.
[[nodiscard]] Result<std::vector<ScannedLog>> scan(io::File& file);

}   // namespace forebay::log
