// The state of one open file, and the locks that guard it. `StagedFile` owns it. The classes that it is made of
// (stage/staged_file.h) share it: each has one job, and keeps to itself the data that no other class needs.
// A file is in one of four modes:
//
//   passive --open_for_writing--> staged --step_aside, staging impossible--> bypass
//      ^                            |                                          |
//      +-------- finish ------------+------------------- finish ---------------+
//                                   +-- finish, but the target failed --> failed
//
// Locks: a call of the program that changes the file holds `writer` throughout. The lock of the drain, `mutex()`,
// guards the state. It is held for short, never across a transfer. Order: `writer`, the lock of `GroupCommits`,
// `mutex()`. Clang's analysis does not follow a lock into another object. So a public function asserts that its caller
// holds the lock that its comment names. Thread-safety: as the annotations say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "drain/outflow.h"
#include "group/group.h"
#include "index/followed_bytes.h"
#include "index/staged_bytes.h"
#include "io/file.h"
#include "ledger/ledger.h"
#include "log/file_log.h"
#include "stage/counting.h"
#include "stage/file_context.h"
#include "stage/unstaged_target.h"

namespace forebay::stage {

class CommitPolicy;

enum class FileMode : std::uint8_t {
    kPassive,   // the program does not write; reads go to the target
    kStaged,    // writes go to the log; reads see them on top of the target
    kBypass,    // writes go to the target
    kFailed,    // closed, and some bytes could not drain: they stay in the log, and reads see them; writes are refused
};

struct FileState {
    struct Name {
        io::Identity identity;
        std::string path;               // absolute, for messages and the log
        std::uint64_t log_number = 0;   // of the file's log within the process
    };
    struct Sizes {
        std::uint64_t logical = 0;     // as the program sees the file
        std::uint64_t committed = 0;   // at the last commit
        std::uint64_t commit_sequence = 0, commit_time_ns = 0;
        std::uint64_t permitted = 0;   // the process may write up to here, when the system was last asked (ulimit -f)
    };
    struct Progress {
        bool dirty = false;                  // something changed since the last commit
        bool all_written = false;            // every process has made its part of a collective write
        std::uint64_t resize_sequence = 0;   // of the last truncation whose record the log needs
    };
    // Why the log of a closed file stays, for recovery.
    struct RetainedLog {
        bool log = false;          // the log stays, although the file has no failed drain of its own
        bool to_others = false;    // another program changed the target; reads return its content
        std::uint64_t bytes = 0;   // bytes that were pending when that was found
    };

    // `file`, the target, is open for reading at least. The context and the listener outlive the state.
    FileState(FileContext& file_context, Name file_name, std::shared_ptr<io::File> file,
              drain::DrainListener& listener);
    ~FileState();

    [[nodiscard]] Mutex& mutex() const RETURN_CAPABILITY(outflow.state.mutex) { return outflow.state.mutex; }

    // Fails in a forked child: the file is its parent's. `action` begins the message.
    [[nodiscard]] Status refuse_if_inherited(const char* action) const;

    [[nodiscard]] group::RecordOrder* order() noexcept { return group ? &group->order() : nullptr; }
    // The number of a new record. A caller of a shared file publishes the number (group::DrawnNumber).
    std::uint64_t next_sequence() noexcept { return group ? group->order().next_sequence() : context.next_sequence(); }
    [[nodiscard]] bool follows() const noexcept { return follower != nullptr; }
    [[nodiscard]] bool drains() const noexcept { return mode == FileMode::kStaged && !follows(); }
    // The drainer's records that the index does not have yet. They have a lock of their own.
    [[nodiscard]] index::OwnRecords& own_records() noexcept NO_THREAD_SAFETY_ANALYSIS { return bytes.own(); }
    // Where the newest staged bytes are, as far as this process knows.
    [[nodiscard]] const index::ExtentIndex& index() const REQUIRES(mutex()) {
        return follower ? follower->index() : bytes.index();
    }
    [[nodiscard]] index::ExtentIndex& index() REQUIRES(mutex()) { return follower ? follower->index() : bytes.index(); }
    // The sizes, as the index reads and changes them while it takes in records.
    [[nodiscard]] index::FileBounds bounds() noexcept REQUIRES(mutex());
    // Takes other participants' new records into the index. If `may_wait`, scattered pieces stay out until their
    // neighbours are there. May throw std::bad_alloc; the next call finds the same records. It does not tell the
    // listener: the drainer drains after it, or wakes a thread if the planner wants one, as other nodes may wait.
    void follow(bool may_wait = false) REQUIRES(mutex());

    // Held bytes may drain without a commit: the promise of the last one is given up. Returns their bytes, zeros too,
    // and counts them. If the file was cut, the target is cut as by a commit, and gets no zeros beyond the file's end.
    // May throw std::bad_alloc; the next call does the rest.
    std::uint64_t make_held_ready() REQUIRES(mutex());

    // Offers the target to reads without the lock, or withdraws it. Call this after every change of what is staged.
    void offer_target() noexcept REQUIRES(mutex());
    // Syncs the target; blocks.
    Status sync_target() EXCLUDES(mutex());
    // Nanoseconds that drain::TargetPace::kBytes take to drain; none unless the target is as fast as the log.
    [[nodiscard]] std::optional<std::uint64_t> memory_pace() const noexcept;

    // Brings the gauges of the ledger up to date, and calls `offer_target`.
    void update_ledger() REQUIRES(mutex());
    void count_aside(ledger::AsideReason reason) noexcept;

    FileContext& context;
    const Name name;
    index::StagedBytes bytes GUARDED_BY(mutex());
    drain::Outflow outflow;
    mutable Mutex writer;

    // Changed under both locks, so that either lock permits reading.
    std::shared_ptr<io::File> target;
    UnstagedTarget unstaged;   // `target`, while nothing is staged
    FileMode mode = FileMode::kPassive;
    std::unique_ptr<log::FileLog> log;
    std::unique_ptr<CommitPolicy> commits;            // null before the first open for writing
    std::shared_ptr<group::Group> group;              // null: this process alone writes the file
    std::unique_ptr<index::FollowedBytes> follower;   // null unless another participant drains
    Sizes sizes;
    bool durable = false;   // commits outlive a loss of power: option durability, or that of all who share the file
    bool several_nodes = false;   // see GroupMembership::join

    Progress progress GUARDED_BY(mutex());
    RetainedLog retained_log GUARDED_BY(mutex());
    Counters counters;
};

}   // namespace forebay::stage
