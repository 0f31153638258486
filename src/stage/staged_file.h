// One open file whose writes are staged: read-your-writes, truncate, commit, drain, close.
//
// The HDF5 file driver calls this with byte extents; HDF5, and MPI, are unknown here. A `StagedFile` is
// shared by every handle of the process on the same file (device and inode); `Engine::attach` hands it out.
//
// A file is in one of four states:
//
//   passive --open_for_writing--> staged --step_aside, staging impossible--> bypass
//      ^                            |                                          |
//      +-------- finish ------------+------------------- finish ---------------+
//                                   +-- finish, but the target failed --> failed
//
//   passive   the program does not write; reads go to the target;
//   staged    writes go to the log, reads see them on top of the target;
//   bypass    writes go to the target;
//   failed    closed with bytes that could not be drained: they stay in the log and stay readable, and writing is
//             refused.
//
// When the mapping of the log faults (log_fault.cc), the staged bytes are drained and the file's state becomes
// `bypass`. If some of them cannot be read back, the file stays `staged`, and its log takes no more: writes bypass it.
//
// Its parts: `index::StagedBytes` knows which bytes are staged, `Outflow` (drain/outflow.h) brings them to the target.
// This class has the states, the calls of the program, and the room in the log. It gives the outflow what that asks
// for.
//
// A file that several processes of the node write together has a group (group/group.h). One of them drains: it takes in
// the logs of all before it plans, reads, commits or finishes. The others are followers (index/followed_bytes.h). They
// keep no index of what they write; when they read, they follow all logs. They leave `commit`, `drain` and `finish` to
// the drainer. A follower writes to the target itself in three cases only:
//   - where nothing has ever been staged, beyond the committed end (`group::SharedTarget::first_unstaged`);
//   - what has to be there at once, with several nodes;
//   - everything, once the drainer has failed with on_error=through.
// The drainer may not know of that yet when it makes the target longer, so it never cuts it then.
//
// Locks: `writer_` serialises whatever changes the file from outside. `mutex()`, which is the outflow's lock, guards
// the state. It is held for short, never across a transfer. Order: writer_, stating_, mutex(). Invariants under
// mutex(), beside those of drain/outflow.h:
//   - a segment that a target write or a reader looks at is pinned, and is not released;
//   - segments are released oldest first, and never the newest while the file is staged.
// Thread-safety: every call may come from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/options.h"
#include "base/status.h"
#include "drain/outflow.h"
#include "drain/scheduler.h"
#include "group/group.h"
#include "index/followed_bytes.h"
#include "index/staged_bytes.h"
#include "io/file.h"
#include "io/forwarded_target.h"
#include "io/trace.h"
#include "ledger/ledger.h"
#include "log/file_log.h"
#include "plan/merge.h"
#include "plan/read_merge.h"
#include "stage/commit_policy.h"
#include "stage/drained_file.h"
#include "stage/file_context.h"
#include "stage/file_state.h"
#include "stage/staging_log.h"

namespace forebay::stage {

enum class ByteClass : std::uint8_t { kRaw, kMetadata };

// Why a close waits although option close says otherwise. The order is that of `waited_close_name`.
enum class WaitedClose : std::uint8_t {
    kNothingLeft,   // everything is in the target, or was never staged
    kFailing,       // the drain or the log has failed
    kUnrecorded,    // the log has no room for the commit record
    kShared,        // several processes write it together
    kTooMany,       // so many closes are under way
    kNamed,         // close=auto, and others can open it
    kUnclaimed,     // others cannot be told, or no thread can be had
    kDeadline,      // the job ends before long
    kForked,        // a forked process may end without its exit handlers: nothing would drain
    kCount,
};

class StagedFile;

// Who keeps the state of a file's last commit while the file goes on (StagedFile::copy_committed).
class CommitKeeper {
  public:
    struct State {
        std::uint64_t size = 0;
        std::uint64_t given_up = 0;   // bytes that ever came to the target before their commit (the counter)
        // What the target does not have: it is staged, or reads as zeros. Ascending, disjoint, below `size`.
        std::vector<ByteRange> elsewhere;
    };
    virtual ~CommitKeeper() = default;
    // Under the file's lock: it must neither block nor call the file. All below `size` that is not `elsewhere` is in
    // the target, until the target is written to there or cut. After a failure nothing is kept.
    virtual Status begin(State state) = 0;
    // Without that lock: staged bytes. What of `elsewhere` does not come reads as zeros.
    virtual Status take(std::uint64_t offset, io::Bytes bytes) = 0;
};

class StagedFile final : public std::enable_shared_from_this<StagedFile> {
  public:
    struct Setup {
        io::Identity identity;
        std::string path;                   // absolute, for messages and the log
        std::shared_ptr<io::File> target;   // for reading at least
        std::uint64_t log_number = 0;
    };
    StagedFile(FileContext& context, Setup setup);
    ~StagedFile();

    // Copies `bytes` into the staging log; they are the newest content of [offset, offset + size) for
    // every later `read` of this process. Blocks only for room in the staging area (option full).
    // Errors: none that a direct write would not have had (where the log cannot take bytes they are written
    // through), but for the sticky background error when there is no room for more. After such an error
    // bytes are still taken and kept; commit and close report it.
    Status write(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class);
    // The same for many places at once: they share records, so a small part costs little.
    using Part = log::FileLog::Part;
    Status write(std::span<const Part> parts, ByteClass byte_class);
    // With several nodes: raw data that other nodes write beside. It goes to the target, past the log.
    Status write_bypassing(std::span<const Part> parts);

    // Fills `bytes` with the newest content; beyond the end of the file: zeros, as HDF5 expects of a driver.
    Status read(std::uint64_t offset, io::MutableBytes bytes);
    // The same for many places at once, in any order: those that lie near each other in the target are read together,
    // and, where it is waited for, several at a time.
    struct ReadPart {
        std::uint64_t offset = 0;
        io::MutableBytes into;
    };
    Status read(std::span<const ReadPart> parts);

    // Gives the state of the last commit to `keeper`, whatever was written since. Blocks while staged bytes are copied.
    // kUnavailable: it is not known, since writes bypass the log, or other processes write the file too.
    Status copy_committed(CommitKeeper& keeper);

    // Sets the logical size; bytes beyond it are gone. Waits for the target in state bypass only.
    Status truncate(std::uint64_t size);
    [[nodiscard]] std::uint64_t size() const;

    // Everything written before is one consistent state (H5Fflush). Once this returns, the death of the
    // process loses nothing of it; it may drain from now on. Blocks until drained with option flush=drain.
    // Reports the sticky background error.
    Status commit();

    // Blocks until every staged byte, committed or not, is in the target. Reports the sticky error.
    // As every call that waits for the target: ETIMEDOUT, once nothing has reached it for as long as option patience
    // says. Nothing is lost by that, and the call may be made again.
    Status drain();
    // The same for what may drain by now: what a commit has to come before stays in the log, so that a crash leaves the
    // last commit. Of a shared file it is what its drainer's process knows of.
    Status drain_ready();
    // Syncs the target: what has drained is on its device. Blocks.
    Status sync_drained();

    // Staged bytes stay in the log until `resume_drain`, until a write needs room, or until a call waits for the
    // target. The close ends the pause. Neither call blocks. Both do nothing in a process that does not drain, and
    // with several nodes.
    void pause_drain();
    void resume_drain();
    [[nodiscard]] bool drain_paused() const;

    // Drains, then writes straight to the target until closed (SWMR, raw descriptor handed out).
    Status step_aside(ledger::AsideReason reason);
    // A file that is written through because nobody had asked for staging (kDisabled) is staged from now on. The
    // staging area is in use. False: it stays as it is: it is shared, or has stepped aside for another reason.
    [[nodiscard]] Result<bool> begin_staging();
    // The program is told where in the file its data are, and may read them there beside HDF5: so they are there on
    // return, and what it writes from now on is there at once. A file that is not written now is remembered
    // (FileContext), and is not staged when it is opened for writing. One that is shared stays staged: see
    // `drain_present`.
    Status expose_offsets();
    void note_addresses_given();   // counts it, and remembers the file
    // Of a shared file: all that this node has staged when the call begins is in the target on return, committed or
    // not. Blocks.
    Status drain_present();

    [[nodiscard]] ledger::FileCounters counters() const;

    // ---- for the engine -------------------------------------------------------------------------

    [[nodiscard]] const std::string& path() const noexcept { return file_.name.path; }
    [[nodiscard]] const io::Identity& identity() const noexcept { return file_.name.identity; }

    // passive -> staged or, with a reason, through. `target` allows writing; `slot` outlives `finish`.
    // If the target may hang, a thread that waits with patience leaves all writing to others; else it writes too.
    // With the option stripe=0 target writes are aligned to the stripe that it names.
    // `prepare`, if there is one, is called once nothing speaks against it any more: it empties the target.
    Status open_for_writing(std::unique_ptr<io::File> target, ledger::LedgerSlot* slot,
                            std::optional<ledger::AsideReason> aside, io::FileTraits traits,
                            const std::function<Status()>& prepare = {});
    // What target writes are aligned to.
    [[nodiscard]] std::uint64_t stripe() const noexcept { return file_.outflow.facts().stripe(); }
    // Commits, drains, sets the target's size, gives the log back: -> passive. On failure -> failed. After ETIMEDOUT a
    // drain thread may still be in a call that does not return: the file and the engine have to stay.
    // kBehindProgram: no call of the program waits for it. Other processes that open the file wait until
    // `let_others_open` is called.
    enum class Finish : std::uint8_t { kProgramWaits, kBehindProgram };
    Status finish(Finish how = Finish::kProgramWaits);
    // To be called after finish(kBehindProgram), once the file is unlocked.
    void let_others_open() noexcept;
    // Commits, so that `finish` may come later; from then on the drain minds other programs (Outflow::guard). Nothing:
    // it may; the death of the process loses nothing then. Else why it had better come at once; it reports what has
    // failed here. Blocks as `commit` does. Of a shared file the drainer calls it, once no rank writes any more.
    [[nodiscard]] std::optional<WaitedClose> commit_to_finish_later();
    // Others can open it: its target has a name, or it cannot be known.
    [[nodiscard]] bool has_name() const;
    // The same at the end of the process, of a file that nobody closes any more. Ok as well if there was nothing to be
    // done. kUnavailable: a thread of the program is in a call of the file, which is not waited for, or another process
    // has to drain it.
    Status finish_unclosed();
    // Makes that of a staged file fail with `why`, and commit and write nothing more: what was written since the last
    // commit is incomplete.
    void withhold(Status why) noexcept;
    [[nodiscard]] bool failed() const;
    // It has failed as another program has changed the target behind its close: nothing keeps others from it.
    [[nodiscard]] bool left_to_others() const;
    // So many bytes were not in it when it lost its last name, behind its close: a copy made before lacks them.
    [[nodiscard]] std::uint64_t nameless_bytes() const;
    [[nodiscard]] bool leaves_log() const;
    // Of a file that others are to write together with this process: the first segment of its log, which `join` needs.
    // It is given back if the file steps aside or is closed instead. kNoSpace: there is none to be had.
    Status take_first_segment();
    // From now on the file is written together with others; nothing has been written yet. Takes the first
    // segment, so that there is always room to wait for.
    // With `several_nodes` no byte waits for a commit, and metadata goes to the target at once, where other nodes find
    // it.
    Status join(std::shared_ptr<group::Group> group, bool several_nodes);
    [[nodiscard]] bool shared() const;
    // With durability=node, of a shared file: this process's log is synced as it is (`sync_own_log`), before the
    // drainer commits; `begin_statements`, by the drainer, once all have joined, and before anybody writes. Both block.
    Status sync_own_log();
    Status begin_statements();
    // Commits are to survive a loss of power: option durability, and for a shared file all who share it.
    [[nodiscard]] bool durable() const;
    // Writes go to the log.
    [[nodiscard]] bool staged() const;
    // The number of the file's log within the process.
    [[nodiscard]] std::uint64_t log_number() const noexcept { return file_.name.log_number; }
    // The drainer looks what others have appended, and sets the drain going if that is worth it. When one of
    // them waits for room everything has to go, held bytes at last.
    void poll_group(bool room_wanted);
    // For the drainer: every process has made its part of a collective write.
    void collective_write_done();
    // For those who do not drain, once the drainer has finished: gives the log back, or with a failure leaves
    // it where it is.
    Status finish_followed(const Status& outcome);
    // With several nodes, when nothing is staged anywhere: one process sets the target's size, then all note it.
    Status resize_beside(std::uint64_t size);
    Status note_size(std::uint64_t size);
    // Everything that changes the target goes through what `guard` makes of it from now on, until the file is closed.
    void guard_target(const std::function<std::shared_ptr<io::File>(std::shared_ptr<io::File>)>& guard);
    void count_given_up(std::uint64_t bytes) noexcept;
    // The program has waited for the drainer since `begin_ns` (monotonic), in a call of the file that is not one of
    // this class.
    void waited_since(std::uint64_t begin_ns) noexcept;
    // The same when the drainer has stepped aside: writes go to the target from now on, and why is counted here too.
    Status go_through(ledger::AsideReason reason);
    // passive, or changed by another program behind its close: takes over the target's present size.
    Status refresh();

    // For tests: a drain thread asks this for work.
    [[nodiscard]] drain::Source& outflow() noexcept { return file_.outflow; }

    [[nodiscard]] StagingLog& log() noexcept { return log_; }
    void lock_for_fork() NO_THREAD_SAFETY_ANALYSIS { file_.mutex().lock(); }
    void unlock_after_fork() NO_THREAD_SAFETY_ANALYSIS { file_.mutex().unlock(); }

  private:
    struct CopyPlan;

    // staged_file.cc
    Status close_staged(Finish how) REQUIRES(file_.writer);
    bool settle_for_close(Status& outcome) REQUIRES(file_.writer, file_.mutex());
    Status leave_in_log(Status outcome) REQUIRES(file_.writer, file_.mutex());
    void leave_to_others() REQUIRES(file_.mutex());
    [[nodiscard]] std::uint64_t log_mount();

    // file_write.cc
    enum class Route : std::uint8_t { kLog, kBypass };
    Status write(std::span<const Part> parts, ByteClass byte_class, Route route);
    Status write_unstaged(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) REQUIRES(file_.writer);
    Status meet_size_limit(std::uint64_t end) REQUIRES(file_.writer);
    Status stage_parts(std::span<const Part> parts, ByteClass byte_class) REQUIRES(file_.writer);
    Status stage_part(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) REQUIRES(file_.writer);
    bool append(std::span<const Part> parts, ByteClass byte_class) REQUIRES(file_.writer);
    Status write_after_fault(std::span<const Part> parts) REQUIRES(file_.writer);
    [[nodiscard]] bool waits_for_commit(std::uint64_t offset, ByteClass byte_class) const noexcept;
    [[nodiscard]] bool goes_through_after_failure() const;
    [[nodiscard]] ByteRange part_to_bypass(ByteRange range, ByteClass byte_class) const noexcept REQUIRES(file_.writer);
    // The bytes that a log may have for the place of a bypass.
    enum class Place : std::uint8_t { kPerhapsStaged, kNeverStaged };
    bool append_bypass_record(ByteRange range, Place place = Place::kPerhapsStaged)
        REQUIRES(file_.writer, file_.mutex());
    Status bypass(std::uint64_t offset, io::Bytes bytes) REQUIRES(file_.writer);
    void note_bypassed(ByteRange range) REQUIRES(file_.writer, file_.mutex());
    Status bypass_beside_others(std::span<const Part> parts, Place place = Place::kPerhapsStaged)
        REQUIRES(file_.writer);
    Status bypass_fast(const Part& part) REQUIRES(file_.writer);
    void append_own(std::span<const Part> parts, const index::OwnRecords::Record& record) REQUIRES(file_.writer);

    // file_share.cc
    bool find_work(bool room_wanted) REQUIRES(file_.mutex());

    // file_read.cc
    Status read_some(std::span<const ReadPart> parts);
    // Nothing is staged that this one read would have to know of. False: it has to look.
    [[nodiscard]] bool read_unstaged(const ReadPart& part, Status& outcome);
    void plan_copy(const ReadPart& part, CopyPlan& plan) const REQUIRES(file_.mutex());
    [[nodiscard]] static bool unchanged(const index::StagedPlace& bytes) noexcept;
    static Result<bool> copy_staged(const CopyPlan& plan);
    Status read_target(std::shared_ptr<io::File> target, std::vector<plan::ReadPiece> pieces, std::size_t threads);

    DrainedFile drained_;
    FileState file_;
    StagingLog log_;
    // The process may write the file up to here, when it was last asked.
    std::uint64_t within_limit_ GUARDED_BY(file_.writer) = 0;
    Status withheld_ GUARDED_BY(file_.mutex());   // why `finish` leaves the log as it is
};

}   // namespace forebay::stage
