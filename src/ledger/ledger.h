// The ledger of a process: what it has staged, drained and stepped aside from, as others may read it.
//
// One memory-mapped file per process and engine, `<nls>/forebay-<uid>/<pid>-<start>-<n>/ledger`, beside
// the process's log. The owner updates plain counters with relaxed atomic stores; `forebay status` maps
// it read-only. A file costs one slot while it is open; slots are reused. The layout is described in
// docs/log-format.md. Thread-safety: every field is an atomic with one writer at a time.
// After a crash the counters are what they were; they are for people, recovery never trusts them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "io/futex.h"

namespace forebay::ledger {

// Why a file, or a whole process, is not staged. The order is part of the ledger's layout.
enum class AsideReason : std::uint8_t {
    kDisabled,   // stage=off
    kDriver,     // another file driver (core, family, split, multi, log, ros3, direct, ...)
    kMpi,        // an mpio access list
    kSubfiling,
    kSwmr,             // single-writer multiple-reader
    kUnderConnector,   // under_vol is not the native connector
    kReadOnly,         // nothing to stage
    kBadOption,        // an option is unusable
    kStagingArea,      // missing, not writable, full, remote, of another owner, a symbolic link
    kHandleTaken,      // the program asked for the raw descriptor
    kNotRegular,       // target is not a regular file
    kSecondLibrary,    // a second libhdf5 that could not be served
    kAtomicity,        // H5Fset_mpi_atomicity
    kSeveralNodes,     // opened with MPI by processes of several nodes
    kAddressGiven,     // the program asked where in the file its data are
    kForwarded,        // a staging server stages it (option server)
    kServer,           // a staging server was to stage it, and cannot
    kPaused,           // the program has paused forebay
    kCount,
};
[[nodiscard]] std::string_view reason_name(AsideReason reason) noexcept;   // "swmr"

inline constexpr std::size_t kReasonCount = static_cast<std::size_t>(AsideReason::kCount);
inline constexpr std::size_t kLedgerPathMax = 4096;
inline constexpr std::size_t kLedgerSlots = 256;

// How the owner of a slot uses the file. The numbers are part of the ledger's layout.
enum class FileUse : std::uint64_t {
    kNone = 0,   // the slot is free
    kOpen = 1,   // it is open
    kLeft = 2,   // it is closed, or was given up, with bytes that are in the log only. Writes of them may be in flight
};

// Counters of one open file. Bytes unless the name says otherwise.
struct alignas(64) LedgerSlot {
    std::atomic<std::uint64_t> in_use;      // a FileUse
    std::atomic<std::uint64_t> opened_ns;   // CLOCK_REALTIME
    std::atomic<std::uint64_t> device, inode;
    std::atomic<std::uint64_t> requests;     // writes received from HDF5
    std::atomic<std::uint64_t> staged;       // ever written to the log
    std::atomic<std::uint64_t> drained;      // ever written from the log to the target
    std::atomic<std::uint64_t> superseded;   // overwritten in the log before they were drained
    std::atomic<std::uint64_t> through;      // written straight to the target
    std::atomic<std::uint64_t> pending;      // in the log only, now
    std::atomic<std::uint64_t> held;         // of those: waiting for the next commit
    std::atomic<std::uint64_t> oldest_ns;    // CLOCK_REALTIME of the oldest pending byte; 0 none
    std::atomic<std::uint64_t> commits;
    std::atomic<std::uint64_t> target_writes;        // write calls on the target
    std::atomic<std::uint64_t> drain_ns;             // time spent in them, summed over threads
    std::atomic<std::uint64_t> stage_ns;             // time the program spent in staged writes
    std::atomic<std::uint64_t> stall_ns;             // of that: waiting for room
    std::atomic<std::uint64_t> close_ns;             // time the program spent waiting in close and flush
    std::atomic<std::uint64_t> guarantee_given_up;   // bytes drained before their commit for want of room
    std::atomic<std::uint64_t> merged;               // drained in target writes that join several records
    std::atomic<std::uint64_t> stolen;               // read from staged bytes instead of the target
    std::atomic<std::uint64_t> syncs;                // waits for the staging device or the target, with durability=node
    std::atomic<std::uint64_t> error;                // errno of the first background failure; 0 none
    std::atomic<std::uint64_t> aside;                // bit mask over AsideReason
    std::atomic<std::uint64_t> path_bytes;
    char path[kLedgerPathMax];   // not terminated; see path_bytes
};

struct alignas(64) LedgerHeader {
    std::atomic<std::uint64_t> magic;   // kLedgerMagic, stored last
    std::uint64_t version;
    std::uint64_t pid, process_start_ticks;   // /proc/<pid>/stat field 22
    char boot_id[40];
    std::uint64_t slots;
    std::uint64_t size;      // option size
    std::uint64_t segment;   // segment bytes
    std::atomic<std::uint64_t> segments_allocated, segments_free;
    std::atomic<std::uint64_t> files_opened, files_staged, files_without_slot;
    std::array<std::atomic<std::uint64_t>, kReasonCount> aside;   // files that stepped aside, by reason
    std::array<std::atomic<std::uint64_t>, 12>
        totals;                            // closed files, in LedgerSlot order requests..stall_ns; unused 0
    std::atomic<std::uint64_t> wrote_ns;   // CLOCK_REALTIME of the end of the last write to any file; 0 none
    io::SharedWord closed;                 // raised when a file has been closed, for whoever waits
};

inline constexpr std::uint64_t kLedgerMagic = 0x3152474459414246;   // "FBAYDGR1" in memory
inline constexpr std::uint64_t kLedgerVersion = 9;

// A plain copy of one slot, for status, statistics and tests.
struct FileCounters {
    std::string path;
    std::uint64_t device = 0, inode = 0;
    std::uint64_t opened_ns = 0, requests = 0, staged = 0, drained = 0, superseded = 0, through = 0, pending = 0,
                  held = 0, oldest_ns = 0, commits = 0, target_writes = 0, drain_ns = 0, stage_ns = 0, stall_ns = 0,
                  close_ns = 0, guarantee_given_up = 0, merged = 0, stolen = 0, syncs = 0, error = 0, aside = 0;
};
[[nodiscard]] FileCounters snapshot(const LedgerSlot& slot);
// One JSON object on one line, the keys named as the members above plus "reasons": ["swmr", ...].
[[nodiscard]] std::string to_json(const FileCounters& counters);

// A file that several processes write, as the board of the one that drains it tells.
struct SharedFile {
    std::vector<std::uint64_t> pids;      // who writes it
    std::uint64_t unfollowed_bytes = 0;   // written by the others, and not in the drainer's counters yet
};
struct LoggedFile {
    std::string path;
    std::uint64_t device = 0, inode = 0;
};

// What `forebay status` sees of one process.
struct ProcessView {
    std::string directory;   // of the ledger
    std::uint64_t pid = 0;
    bool alive = false;   // or another process has taken over what it left
    std::uint64_t size = 0, segment = 0, segments_allocated = 0, segments_free = 0;
    std::uint64_t files_opened = 0, files_staged = 0, files_without_slot = 0;
    std::uint64_t wrote_ns = 0;
    std::array<std::uint64_t, kReasonCount> aside{};
    std::vector<FileCounters> files;   // open ones
    // By `scan_ledgers` only:
    std::vector<SharedFile> shared;   // files that it writes together with others, and drains for them
    std::vector<LoggedFile>
        logged;   // of a dead process, or one with files without slot: what its log and journals are about
};
// That of the process directory `directory`, open. Files that have been closed are not in it.
[[nodiscard]] Result<ProcessView> read_ledger(io::Directory& directory);

// How the ledger in `directory` has this file. kNone too if no ledger was made yet. An error: the ledger cannot be
// read, or (kUnavailable, without an errno) has had more files than slots, and not this one. With `path` a file that
// was opened by this path counts, too.
[[nodiscard]] Result<FileUse> file_use(io::Directory& directory, const io::Identity& identity,
                                       std::string_view path = {});

// Writes `wrote_ns` into the ledger of a dead process. kCorrupt: `file` is no ledger of this version.
[[nodiscard]] Status note_write(io::File& file, std::uint64_t time_ns);

// All ledgers below `<nls>/forebay-<uid>`; an unreadable or foreign one is left out and named in
// `skipped`. Blocks on file I/O only.
struct LedgerScan {
    std::vector<ProcessView> processes;
    std::vector<std::string> skipped;
};
[[nodiscard]] Result<LedgerScan> scan_ledgers(const std::string& nls);
// The same of `area`, a `forebay-<uid>`, open. What of a dead process cannot be read is named in `skipped` too.
[[nodiscard]] LedgerScan scan_ledgers(io::Directory& area);

// Removes from `area` (forebay-<uid>, open) what dead processes left that had no file open: a child that
// ends with _exit, for example. A log that may hold anything stays. Best effort.
void remove_leftovers(io::Directory& area);

}   // namespace forebay::ledger
