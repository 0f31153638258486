// The ledger of a process: counters of staging, drain and files that stepped aside, for other processes to read.
// A process has one memory-mapped file per engine, `<nls>/forebay-<uid>/<pid>-<start>-<n>/ledger`, beside its log. The
// owner updates plain counters with relaxed atomic stores; `forebay status` maps the file read-only. A file costs one
// slot while it is open, and slots are reused. docs/log-format.md describes the layout. Thread-safety: every field is
// an atomic with one writer at a time. After a crash the counters keep their values. Recovery never trusts them.
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

// Reasons why a file or a whole process is not staged. The order is part of the ledger's layout.
enum class AsideReason : std::uint8_t {
    kDisabled,   // stage=off
    kDriver,     // opened, maybe a second time, with another file driver (core, family, split, log, ros3, direct, ...)
    kMpi,        // an mpio access list
    kSubfiling,
    kSwmr,             // single-writer multiple-reader
    kUnderConnector,   // under_vol is not the native connector
    kReadOnly,         // nothing to stage
    kBadOption,        // an option has an unusable value
    kStagingArea,      // missing, not writable, full, remote, of another owner, or a symbolic link
    kHandleTaken,      // the program asked for the raw descriptor
    kNotRegular,       // target is not a regular file
    kSecondLibrary,    // forebay cannot serve a second libhdf5
    kAtomicity,        // H5Fset_mpi_atomicity
    kSeveralNodes,     // opened with MPI by processes of several nodes
    kAddressGiven,     // the program asked for the file offset of its data
    kForwarded,        // a staging server stages the file (option server)
    kServer,           // a staging server cannot stage the file
    kPaused,           // the program paused forebay
    kCount,
};
[[nodiscard]] std::string_view reason_name(AsideReason reason) noexcept;   // "swmr"

inline constexpr std::size_t kReasonCount = static_cast<std::size_t>(AsideReason::kCount);
inline constexpr std::size_t kLedgerPathMax = 4096;
inline constexpr std::size_t kLedgerSlots = 256;

// How the owner of a slot uses the file. The numbers are part of the ledger's layout.
enum class FileUse : std::uint64_t {
    kNone = 0,   // the slot is free
    kOpen = 1,
    kLeft = 2,   // closed or given up, with bytes that are only in the log; writes of them may be in flight
};

// Counters of one open file, in bytes unless the name says otherwise.
struct alignas(64) LedgerSlot {
    std::atomic<std::uint64_t> in_use;      // a FileUse
    std::atomic<std::uint64_t> opened_ns;   // CLOCK_REALTIME
    std::atomic<std::uint64_t> device, inode;
    std::atomic<std::uint64_t> requests;     // writes received from HDF5
    std::atomic<std::uint64_t> staged;       // written to the log, in all
    std::atomic<std::uint64_t> drained;      // written from the log to the target, in all
    std::atomic<std::uint64_t> superseded;   // overwritten in the log before their drain
    std::atomic<std::uint64_t> through;      // written directly to the target
    std::atomic<std::uint64_t> pending;      // only in the log, now
    std::atomic<std::uint64_t> held;         // of these: waiting for the next commit
    std::atomic<std::uint64_t> oldest_ns;    // CLOCK_REALTIME of the oldest pending byte; 0 none
    std::atomic<std::uint64_t> commits;
    std::atomic<std::uint64_t> target_writes;        // write calls on the target
    std::atomic<std::uint64_t> drain_ns;             // time in target writes, summed over threads
    std::atomic<std::uint64_t> stage_ns;             // time of the program in staged writes
    std::atomic<std::uint64_t> stall_ns;             // of this: waiting for room
    std::atomic<std::uint64_t> close_ns;             // time that the program waited in close and flush
    std::atomic<std::uint64_t> guarantee_given_up;   // drained before their commit for lack of room
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
        totals;                            // closed files, in LedgerSlot order requests..stall_ns; unused: 0
    std::atomic<std::uint64_t> wrote_ns;   // CLOCK_REALTIME at the end of the last write to any file; 0 none
    io::SharedWord closed;                 // raised at the close of a file, for waiting processes
};

inline constexpr std::uint64_t kLedgerMagic = 0x3152474459414246;   // "FBAYDGR1" in memory
inline constexpr std::uint64_t kLedgerVersion = 9;

struct FileCounters {
    std::string path;
    std::uint64_t device = 0, inode = 0;
    std::uint64_t opened_ns = 0, requests = 0, staged = 0, drained = 0, superseded = 0, through = 0, pending = 0,
                  held = 0, oldest_ns = 0, commits = 0, target_writes = 0, drain_ns = 0, stage_ns = 0, stall_ns = 0,
                  close_ns = 0, guarantee_given_up = 0, merged = 0, stolen = 0, syncs = 0, error = 0, aside = 0;
};
[[nodiscard]] FileCounters snapshot(const LedgerSlot& slot);
// Returns one JSON object on one line. The keys are the members above, and "reasons": ["swmr", ...].
[[nodiscard]] std::string to_json(const FileCounters& counters);

// A file that several processes write, as the drainer's board shows it.
struct SharedFile {
    std::vector<std::uint64_t> pids;      // its writers
    std::uint64_t unfollowed_bytes = 0;   // written by the others, and not yet in the drainer's counters
};
struct LoggedFile {
    std::string path;
    std::uint64_t device = 0, inode = 0;
};

struct ProcessView {
    std::string directory;   // of the ledger
    std::uint64_t pid = 0;
    // The process lives, or another process has taken over its files.
    bool alive = false;
    // The ledger is of an earlier boot, and may be older than the log: only the recovery of a durable log syncs it.
    bool restarted = false;
    std::uint64_t size = 0, segment = 0, segments_allocated = 0, segments_free = 0;
    std::uint64_t files_opened = 0, files_staged = 0, files_without_slot = 0;
    std::uint64_t wrote_ns = 0;
    std::array<std::uint64_t, kReasonCount> aside{};
    std::vector<FileCounters> files;   // open files
    // Only `scan_ledgers` sets these:
    std::vector<SharedFile> shared;   // files that this process drains for several writers
    std::vector<LoggedFile>
        logged;   // of a dead process, or one with files without slot: the targets of its log and journals
};
// Reads the ledger of an open process directory. It does not list closed files.
[[nodiscard]] Result<ProcessView> read_ledger(io::Directory& directory);

// Returns the use of this file in the ledger of `directory`, and kNone if there is no ledger yet. With `path`, a file
// that was opened by this path counts, too. Fails if the ledger cannot be read. Returns kUnavailable without an errno
// if the process has had more files than slots and this file has none.
[[nodiscard]] Result<FileUse> file_use(io::Directory& directory, const io::Identity& identity,
                                       std::string_view path = {});

// Writes `wrote_ns` into the ledger of a dead process. Returns kCorrupt if `file` is no ledger of this version.
[[nodiscard]] Status note_write(io::File& file, std::uint64_t time_ns);

// Reads all ledgers below `<nls>/forebay-<uid>`. `skipped` names unreadable and foreign ones. Blocks on I/O.
struct LedgerScan {
    std::vector<ProcessView> processes;
    std::vector<std::string> skipped;
};
[[nodiscard]] Result<LedgerScan> scan_ledgers(const std::string& nls);
// Reads all ledgers of `area`, an open `forebay-<uid>`. Unreadable parts of a dead process are named in `skipped`, too.
[[nodiscard]] LedgerScan scan_ledgers(io::Directory& area);

// Removes the directories of dead processes without open files from `area`, an open `forebay-<uid>`: for example of a
// child that ended with _exit. A log that may hold records stays. Best effort.
void remove_leftovers(io::Directory& area);

}   // namespace forebay::ledger
