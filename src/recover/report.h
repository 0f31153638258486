// What recovery found and did, for whoever asked: plain data, and the words for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "recover/superblock.h"

namespace forebay::recover {

enum class Outcome : std::uint8_t {
    kRecovered,    // the file holds everything up to its last commit
    kRolledBack,   // there was no commit: the file is as it was when it was opened
    kComplete,     // the file had everything already; only the log was left
    kDiscarded,    // the log is gone without having been used
    kGone,         // the same: the file has no name any more
    kRefused,      // nothing was changed; the log is kept
    kWaiting,      // this node has done its part; other nodes that wrote the file have to recover, too
    kFailed,       // something went wrong on the way; the log is kept, and the same may be tried again
};
[[nodiscard]] std::string_view outcome_name(Outcome outcome) noexcept;   // "recovered"

enum class Reason : std::uint8_t {
    kNone,
    kMissing,        // there is no such file any more
    kReplaced,       // another file is in its place
    kChanged,        // somebody has written to the file since the processes died
    kReadOnly,       // the file may not be written
    kNoSpace,        // the file's device is full
    kInUse,          // a living process has the file open
    kDamaged,        // something that the last commit promised cannot be read
    kRestarted,      // the machine was restarted, and bytes without a checksum would be needed
    kIncomplete,     // logs of the same file are elsewhere
    kSeveralRuns,    // several programs, one after the other, have left logs of this file
    kNodesMissing,   // nodes that wrote the file too have not recovered yet
    kNotAsked,       // only done when it is asked for: see advice
    kSystem,         // a call of the operating system failed
};
[[nodiscard]] std::string_view reason_name(Reason reason) noexcept;   // "in_use"

struct FileReport {
    std::string path;          // of the target
    std::string logged_path;   // as the log has it
    io::Identity identity;
    Outcome outcome = Outcome::kRefused;
    Reason reason = Reason::kNone;
    Status status;                          // ok, or what was wrong
    std::vector<std::string> directories;   // process directories whose logs these are
    std::vector<std::uint64_t> processes;
    std::uint64_t commit_sequence = 0;     // 0: none
    std::uint64_t commit_time_ns = 0;      // CLOCK_REALTIME; 0: unknown
    std::uint64_t size = 0;                // of the file, as it is or would be
    std::uint64_t bytes = 0, writes = 0;   // written from the logs; with dry_run, to be written
    std::uint64_t unchecked_bytes =
        0;   // of those: without a checksum, trusted because the machine was not restarted since
    std::uint64_t dropped_records = 0,
                  dropped_bytes = 0;       // written after the last commit; of a file that is left alone 0
    std::uint64_t unread_bytes = 0;        // of the log, behind something damaged, after the last commit
    std::uint64_t uncommitted_bytes = 0;   // reached the file before their commit, for want of room
    std::uint64_t nodes = 1,
                  nodes_here = 1;   // that wrote it together; of those, that have left logs in these staging areas
    bool restarted = false;         // the log is of another boot: what it lost then is not known
    Mark mark = Mark::kNone;        // HDF5's mark of a file that is open for writing
};

// What to do about a file that is not recovered; empty: nothing.
[[nodiscard]] std::string advice(const FileReport& report);

// Why records were dropped: "not_committed", they came after the last commit; "never_committed", there was none;
// "discarded", it was asked for; "none": none were.
[[nodiscard]] std::string_view dropped_reason(const FileReport& report) noexcept;

// Of a file that several nodes wrote: that logs of some of them are not here. Nobody can tell whether they have been
// recovered. Empty: all are here.
[[nodiscard]] std::string about_nodes(const FileReport& report);

struct DirectoryReport {
    std::string path;
    Status status;   // why it was left alone
};

struct Report {
    std::vector<FileReport> files;
    std::vector<DirectoryReport> refused;   // directories that could not be looked into
    std::vector<std::string> living;        // of processes that are at work
    std::size_t owners = 0;                 // of those: that have files open, or do not tell
    std::vector<std::string> removed;       // directories; with dry_run, to be removed

    // Nothing that was asked for is left undone.
    [[nodiscard]] bool all_well() const noexcept;
};

}   // namespace forebay::recover
