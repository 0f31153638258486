// What ledgers say of each file, of all processes that write it together. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ledger/ledger.h"

namespace forebay::cli {

// One process that writes the file, or did.
struct FileMember {
    const ledger::ProcessView* process = nullptr;
    const ledger::FileCounters* counters = nullptr;   // null: only its log has the file
    bool drains = false;                              // for all of a node
};

enum class FileState {
    kAtWork,       // a living process has it open
    kFailing,      // the same, and what is staged cannot be written
    kLeftBehind,   // only the log of a dead process has some of it
    kDrained,      // its process died without closing it, and the file has everything that was staged
};
[[nodiscard]] std::string_view state_name(FileState state) noexcept;   // "at_work"

struct FileView {
    std::string path;
    std::uint64_t device = 0, inode = 0;
    std::vector<FileMember> members;
    ledger::FileCounters sum;    // of all members; opened_ns and oldest_ns are the earliest, error is the first one
    std::uint64_t pending = 0;   // with what the one that drains has not counted yet
    FileState state = FileState::kAtWork;

    // The part of the staged bytes that needs no draining any more, 0 to 1.
    [[nodiscard]] double progress() const noexcept;
};

// By path. They point into `scan`.
[[nodiscard]] std::vector<FileView> files_of(const ledger::LedgerScan& scan);

// Of a dead process nothing is left that anybody wants.
[[nodiscard]] bool is_empty(const ledger::ProcessView& process) noexcept;

// Adds up what `from` has counted.
void add(ledger::FileCounters& sum, const ledger::FileCounters& from);

}   // namespace forebay::cli
