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
    kRecovered,    // the file has all bytes up to its last commit
    kRolledBack,   // there was no commit: the file is as at its open
    kComplete,     // the file already had all bytes; only the log was left
    kDiscarded,    // the log was removed unused
    kGone,         // the same, because the file has no name
    kRefused,      // nothing was changed; the log is kept
    kWaiting,      // done on this node; other nodes must recover too
    kFailed,       // an error on the way; the log is kept, and a retry is possible
};
[[nodiscard]] std::string_view outcome_name(Outcome outcome) noexcept;   // "recovered"

enum class Reason : std::uint8_t {
    kNone,
    kMissing,        // the file does not exist
    kReplaced,       // another file is in its place
    kChanged,        // another program has written to the file since the processes died
    kReadOnly,       // the file is not writable
    kNoSpace,        // the file's device is full
    kInUse,          // a living process has the file open
    kDamaged,        // a part that the last commit promised is unreadable
    kRestarted,      // after a restart of the machine, bytes without a checksum would be needed
    kIncomplete,     // logs of the same file are elsewhere
    kSeveralRuns,    // several programs, one after another, left logs of this file
    kNodesMissing,   // other nodes that wrote the file have not recovered yet
    kNotAsked,       // needs a command: see advice
    kSystem,         // a system call failed
};
[[nodiscard]] std::string_view reason_name(Reason reason) noexcept;   // "in_use"

struct FileReport {
    std::string path;          // of the target
    std::string logged_path;   // in the log
    io::Identity identity;
    Outcome outcome = Outcome::kRefused;
    Reason reason = Reason::kNone;
    Status status;                          // ok, or the error
    std::vector<std::string> directories;   // that have the logs
    std::vector<std::uint64_t> processes;
    std::uint64_t commit_sequence = 0;     // 0: none
    std::uint64_t commit_time_ns = 0;      // CLOCK_REALTIME; 0: unknown
    std::uint64_t size = 0;                // of the file now or, with dry_run, after recovery
    std::uint64_t bytes = 0, writes = 0;   // from the logs; with dry_run, planned
    std::uint64_t unchecked_bytes = 0;   // among `bytes`, without a checksum: trusted, as the machine was not restarted
    std::uint64_t dropped_records = 0,
                  dropped_bytes = 0;       // after the last commit; 0 if the file is left alone
    std::uint64_t unread_bytes = 0;        // of the log, behind damage, after the last commit
    std::uint64_t uncommitted_bytes = 0;   // reached the file before their commit, for lack of room
    std::uint64_t nodes = 1,
                  nodes_here = 1;   // nodes that wrote the file, and those with logs in these areas
    bool restarted = false;         // the log is of an earlier boot, and may have lost bytes
    Mark mark = Mark::kNone;        // HDF5's mark of a file open for writing
};

[[nodiscard]] std::string advice(const FileReport& report);

// "not_committed": after the last commit. "never_committed": no commit. "discarded": by request. "none".
[[nodiscard]] std::string_view dropped_reason(const FileReport& report) noexcept;

// A text for a file of several nodes if logs of some are not here; they may be recovered already. Empty: all are here.
[[nodiscard]] std::string about_nodes(const FileReport& report);

struct DirectoryReport {
    std::string path;
    Status status;   // why it was left alone
};

struct Report {
    std::vector<FileReport> files;
    std::vector<DirectoryReport> refused;   // directories that were not read
    std::vector<std::string> living;        // directories of living processes
    std::size_t owners = 0;                 // among them: with open files, or unknown
    std::vector<std::string> removed;       // directories; with dry_run, planned

    [[nodiscard]] bool all_well() const noexcept;
};

}   // namespace forebay::recover
