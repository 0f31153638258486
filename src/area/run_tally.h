// Counters of one process that its `forebay run` can read however the process ends: by itself, by _exit, or killed.
// A process of a run maps one small file for each engine into the folder of the run (area/run_record.h) and counts
// there. A forked child that continues with its parent's files adds to the parent's file. The layout is private to one
// version of forebay. Thread-safety: `open` comes once, before other threads count; counters are atomics. Best effort:
// without the file the counters stay in the process's memory, and no call fails.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "io/guarded_access.h"

namespace forebay::area {

inline constexpr std::size_t kTallyReasons = 32;   // at least the number of reasons of ledger and cache

// Reads of files through the read cache, in bytes.
struct ReadTally {
    std::atomic<std::uint64_t> files, hit_bytes, missed_bytes, fetched_bytes, stored_bytes, remote_bytes;
    std::array<std::atomic<std::uint64_t>, kTallyReasons> aside;   // files by cache::Aside
};

struct RunTally {
    std::atomic<std::uint64_t> magic;   // kTallyMagic, stored last
    std::uint64_t pid, start_ticks;
    std::atomic<std::uint64_t> files_opened, files_staged;
    std::atomic<std::uint64_t> files_written;                      // open for writing now
    std::array<std::atomic<std::uint64_t>, kTallyReasons> aside;   // files by ledger::AsideReason
    ReadTally reads;
};

inline constexpr std::uint64_t kTallyMagic = 0x3159'4c4c'4154'4246;   // "FBTALLY1" in memory

class TallyWriter {
  public:
    TallyWriter() : own_(std::make_unique<RunTally>()), tally_(own_.get()) {}

    // Counts in a new file in `folder` from then on, and returns its path. On failure the counters stay in memory.
    [[nodiscard]] Result<std::string> open(const std::string& folder);
    [[nodiscard]] RunTally& tally() noexcept { return *tally_; }

  private:
    std::unique_ptr<RunTally> own_;
    std::unique_ptr<io::Mapping> mapping_;
    std::unique_ptr<io::Replaceable> replaceable_;   // a failure here must not fail the process
    RunTally* tally_;
};

struct TallyView {
    std::uint64_t pid = 0, start_ticks = 0;
    std::uint64_t files_opened = 0, files_staged = 0, files_written = 0;
    std::array<std::uint64_t, kTallyReasons> aside{};
    std::uint64_t read_files = 0, hit_bytes = 0, missed_bytes = 0, fetched_bytes = 0, stored_bytes = 0,
                  remote_bytes = 0;
    std::array<std::uint64_t, kTallyReasons> read_aside{};
};
// Returns kCorrupt if `path` is no such file of this version.
[[nodiscard]] Result<TallyView> read_tally(const std::string& path);

}   // namespace forebay::area
