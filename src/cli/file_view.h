// The ledgers' data for each file, over all processes that write it together. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ledger/ledger.h"

namespace forebay::cli {

struct FileMember {
    const ledger::ProcessView* process = nullptr;
    const ledger::FileCounters* counters = nullptr;   // null if only the log has the file
    bool drains = false;                              // for all processes of a node
    bool logged = false;                              // the process's log has the file, if that was read

    // Returns true if the log may have bytes that the counters do not show.
    [[nodiscard]] bool may_have_more() const noexcept { return counters == nullptr || (logged && process->restarted); }
};

enum class FileState {
    kAtWork,       // a living process has the file open
    kFailing,      // as kAtWork, but the staged bytes cannot be written
    kLeftBehind,   // only the log of a dead process has some of the bytes
    kDrained,      // its process died before the close, and the file has all staged bytes
};
[[nodiscard]] std::string_view state_name(FileState state) noexcept;   // "at_work"

struct FileView {
    std::string path;
    std::uint64_t device = 0, inode = 0;
    std::vector<FileMember> members;
    ledger::FileCounters sum;    // over all members; opened_ns and oldest_ns are the minimum, error is the first one
    std::uint64_t pending = 0;   // includes bytes that the drainer has not counted yet
    bool outstanding = false;    // some bytes are pending, or the size is not set yet
    FileState state = FileState::kAtWork;

    // The part of the staged bytes that needs no more draining, 0 to 1.
    [[nodiscard]] double progress() const noexcept;
};

// Returns the files by path. The views point into `scan`.
[[nodiscard]] std::vector<FileView> files_of(const ledger::LedgerScan& scan);

// Returns true if a dead process has left no bytes that matter.
[[nodiscard]] bool is_empty(const ledger::ProcessView& process) noexcept;

void add(ledger::FileCounters& sum, const ledger::FileCounters& from);

}   // namespace forebay::cli
