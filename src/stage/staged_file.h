// One open file whose writes are staged: read-your-writes, truncate, commit, drain, close.
//
// The HDF5 file driver calls this with byte extents; HDF5, and MPI, are unknown here. A `StagedFile` is
// shared by every handle of the process on the same file (device and inode); `Engine::attach` hands it out.
//
// A file is in one of four states:
//
//   passive --open_for_writing--> staged --step_aside, staging impossible--> through
//      ^                            |                                           |
//      +-------- finish ------------+------------------- finish ----------------+
//                                   +-- finish, but the target failed --> failed
//
//   passive   nobody writes: reads go to the target;
//   staged    writes go to the log, reads see them on top of the target;
//   through   writes go straight to the target;
//   failed    closed with bytes that could not be drained: they stay in the log and stay readable,
//             writing is refused.
//
// When the mapping of the log faults (log_fault.cc), what is staged is drained and the file goes `through`; if not all of
// it can be read back it stays `staged`, without taking more: writes go straight to the target.
//
// Locks: `writer_` serialises whatever changes the file from outside; `mutex_` guards the state and is
// held for short, never across a transfer. Order: writer_ before mutex_.
// Invariants under mutex_:
//   - target writes in flight are disjoint, and nothing that overlaps one of them is planned: so two
//     generations of a byte never race to the target;
//   - a segment that a target write or a reader looks at is pinned, and is not released;
//   - segments are released oldest first, and never the newest while the file is staged.
// A file that several processes of the node write together has a share (share.h). The one that drains feeds
// its index from the logs of all, before it plans, reads, commits or finishes. The others keep no index of
// what they write; reading, they follow all logs, theirs included, and check that the bytes were still there
// after copying them. `commit`, `drain` and `finish` they leave to the drainer. To the target they write where nothing has ever been staged
// (`Share::first_unstaged`) beyond the committed end; otherwise only what has to be there at once with several nodes, and all once the
// drainer has failed with on_error=through. It may not know of that yet when it makes the target longer, which therefore never cuts.
// Thread-safety: every call may come from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "drain/concurrency.h"
#include "drain/scheduler.h"
#include "io/file.h"
#include "log/file_log.h"
#include "log/ledger.h"
#include "plan/merge.h"
#include "stage/extent_index.h"
#include "stage/own_records.h"
#include "stage/range_set.h"
#include "stage/share.h"
#include "stage/spare_time.h"
#include "stage/target_pace.h"

namespace forebay::stage {

enum class ByteClass : std::uint8_t { kRaw, kMetadata };

// What target writes are aligned to if neither an option nor the file system says.
inline constexpr std::uint64_t kStripeUnlessTold = std::uint64_t{1} << 20;

class StagedFile;

// What the files of a process share; the engine provides it.
class Surroundings {
  public:
    virtual ~Surroundings() = default;
    [[nodiscard]] virtual const Options& options() const noexcept = 0;
    // Null while no staging area is in use.
    [[nodiscard]] virtual log::SegmentPool* pool() noexcept = 0;
    [[nodiscard]] virtual drain::Scheduler& scheduler() noexcept = 0;
    [[nodiscard]] virtual std::uint64_t next_sequence() noexcept = 0;
    // True in a forked child.
    [[nodiscard]] virtual bool inherited() const noexcept = 0;
    // Room is needed: every file drains all that it may. True if any has something under way.
    virtual bool press_files(const StagedFile& asking) = 0;
    // Room is needed and nothing is under way: held bytes of all files may drain before their commit.
    // True if there were any.
    virtual bool promote_held() = 0;
    // Something has reached a target: a write, or a change of its size; and when that was last (monotonic).
    virtual void progressed() noexcept = 0;
    [[nodiscard]] virtual std::uint64_t progress_ns() const noexcept = 0;
    // That of the process.
    [[nodiscard]] virtual SpareTime& spare_time() noexcept = 0;
    // One target write has ended: for the trace, and for the time of the last one.
    virtual void trace(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) = 0;
};

class StagedFile final : public drain::Source, public std::enable_shared_from_this<StagedFile> {
  public:
    struct Setup {
        io::Identity identity;
        std::string path;                    // absolute, for messages and the log
        std::unique_ptr<io::File> target;    // for reading at least
        std::uint64_t log_number = 0;
    };
    StagedFile(Surroundings& surroundings, Setup setup);
    ~StagedFile() override;

    // Copies `bytes` into the staging log; they are the newest content of [offset, offset + size) for
    // every later `read` of this process. Blocks only for room in the staging area (option full).
    // Errors: none that a direct write would not have had (where the log cannot take bytes they are written
    // through), but for the sticky background error when there is no room for more. After such an error
    // bytes are still taken and kept; commit and close report it.
    Status write(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class);
    // The same for many places at once: they share records, so a small part costs little.
    using Part = log::FileLog::Part;
    Status write(std::span<const Part> parts, ByteClass byte_class);

    // Fills `bytes` with the newest content; beyond the end of the file: zeros, as HDF5 expects of a driver.
    Status read(std::uint64_t offset, io::MutableBytes bytes);

    // Sets the logical size; what is beyond is gone. Does not wait for the target, but in state through.
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

    // Drains, then writes straight to the target until closed (SWMR, raw descriptor handed out).
    Status step_aside(log::AsideReason reason);

    [[nodiscard]] log::FileCounters counters() const;

    // ---- for the engine -------------------------------------------------------------------------

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] const io::Identity& identity() const noexcept { return identity_; }

    // Of the file system that a target is on. If it `may_hang`, as network file systems do, a thread that waits with patience
    // leaves all writing to others; else it writes too. The `stripe` in bytes, if it names one (io/stripe_size.h): with the
    // option stripe=0 target writes are aligned to it.
    struct TargetTraits {
        bool may_hang = true;
        std::uint64_t stripe = 0;
    };
    // passive -> staged or, with a reason, through. `target` allows writing; `slot` outlives `finish`.
    Status open_for_writing(std::unique_ptr<io::File> target, log::LedgerSlot* slot,
                            std::optional<log::AsideReason> aside, TargetTraits traits);
    // What target writes are aligned to.
    [[nodiscard]] std::uint64_t stripe() const noexcept { return stripe_.load(std::memory_order_relaxed); }
    // Commits, drains, sets the target's size, gives the log back: -> passive. On failure -> failed. After ETIMEDOUT a
    // drain thread may still be in a call that does not return: the file and the engine have to stay.
    Status finish();
    // Makes that of a staged file fail with `why`, and commit and write nothing more: what was written since the last commit is incomplete.
    void withhold(Status why) noexcept;
    [[nodiscard]] bool failed() const;
    [[nodiscard]] bool leaves_log() const;
    // Of a file that others are to write together with this process: the first segment of its log, which `join` needs. It is given back
    // if the file steps aside or is closed instead. kNoSpace: there is none to be had.
    Status take_first_segment();
    // From now on the file is written together with others; nothing has been written yet. Takes the first
    // segment, so that there is always room to wait for.
    // With `several_nodes` nothing is held back, and metadata goes straight to the target, where the others
    // find it.
    Status join(std::shared_ptr<Share> share, bool several_nodes);
    [[nodiscard]] bool shared() const;
    // With durability=node, of a shared file: this process's log is synced as it is (`sync_own_log`), before the drainer
    // commits; `begin_statements`, by the drainer, once all have joined, and before anybody writes. Both block.
    Status sync_own_log();
    Status begin_statements();
    // Commits are to survive a loss of power: option durability, and for a shared file all who share it.
    [[nodiscard]] bool durable() const;
    // Writes go to the log.
    [[nodiscard]] bool staged() const;
    // The number of the file's log within the process.
    [[nodiscard]] std::uint64_t log_number() const noexcept { return log_number_; }
    // The drainer looks what others have appended, and sets the drain going if that is worth it. When one of
    // them waits for room everything has to go, held bytes at last.
    void look(bool room_wanted);
    // For the drainer: every process has made its part of a collective write.
    void look_at_all();
    // For those who do not drain, once the drainer has finished: gives the log back, or with a failure leaves
    // it where it is.
    Status finish_followed(const Status& outcome);
    // With several nodes, when nothing is staged anywhere: one process sets the target's size, then all note it.
    Status resize_beside(std::uint64_t size);
    Status note_size(std::uint64_t size);
    // Everything that changes the target goes through what `guard` makes of it from now on, until the file is closed.
    void guard_target(const std::function<std::shared_ptr<io::File>(std::shared_ptr<io::File>)>& guard);
    void count_given_up(std::uint64_t bytes) noexcept;
    // The program has waited for the drainer since `begin_ns` (monotonic), in a call of the file that is not one of this class.
    void waited_since(std::uint64_t begin_ns) noexcept;
    // The same when the drainer has stepped aside: writes go to the target from now on, and why is counted here too.
    Status go_through(log::AsideReason reason);
    // passive: takes over the target's present size.
    Status refresh();

    bool press();
    std::uint64_t promote_held();
    void lock_for_fork() { mutex_.lock(); }
    void unlock_after_fork() { mutex_.unlock(); }

    Taken take() override;

  private:
    enum class State : std::uint8_t { kPassive, kStaged, kThrough, kFailed };
    class WriteWork;
    class ResizeWork;
    class SyncWork;
    // A sync of the target. Whoever waits for it may give it up; its outcome, which the system tells once, is kept all the same.
    struct Syncing {
        bool done = false, given_up = false;   // guarded by mutex_
        Status outcome;
    };
    struct CopyPlan;
    struct Cost;

    // staged_file.cc, file_write.cc, file_read.cc, file_share.cc: the program's side. `_writer`: writer_ is held;
    // `_locked`: mutex_ is held.
    Status refuse_if_inherited(const char* what) const;
    Status stage_writer(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class);
    [[nodiscard]] std::uint64_t memory_pace() const noexcept;
    [[nodiscard]] log::WritesBeside& beside_locked() noexcept { return share_ ? share_->beside() : beside_; }
    [[nodiscard]] ByteRange straight_part(ByteRange range, ByteClass byte_class) const noexcept;
    Status stage_parts_writer(std::span<const Part> parts, ByteClass byte_class);
    bool append_writer(std::span<const Part> parts, ByteClass byte_class);
    Status write_after_fault_writer(std::span<const Part> parts);
    [[nodiscard]] bool waits_for_commit(std::uint64_t offset, ByteClass byte_class) const noexcept;
    // What the place of a write beside the log may have in a log.
    enum class Beside : std::uint8_t { kPerhapsStaged, kNeverStaged };
    bool append_through_locked(ByteRange range, Beside beside = Beside::kPerhapsStaged);
    Status write_through_writer(std::uint64_t offset, io::Bytes bytes);
    void written_through_locked(ByteRange range);
    Status write_beside_writer(std::span<const Part> parts, Beside beside = Beside::kPerhapsStaged);
    Status write_straight_writer(const Part& part);
    Status write_direct_writer(std::uint64_t offset, io::Bytes bytes);
    Status commit_writer(bool closing);
    Status append_marker_writer(log::RecordKind kind, std::uint64_t argument, std::uint64_t sequence);
    Status leave_log_writer();
    // log_fault.cc: the staging device fails under the mapping.
    Status give_up_log_writer();
    void lost_locked(const std::vector<ByteRange>& unreadable, const Status& fault);

    // With durability=node: durability.cc.
    Status append_durable_commit_writer(bool closing, bool& recorded);
    Status sync_target(const std::shared_ptr<io::File>& target);
    Status sync_within_patience(const std::shared_ptr<io::File>& target);
    void complete_sync(Syncing& syncing, const Status& outcome) noexcept;
    [[nodiscard]] bool sync_hangs_locked() const noexcept;
    Status sync_log();
    Status keep_sync_error(const Status& failed);
    void sync_opening_writer();
    bool recycle_durably(std::unique_lock<std::mutex>& lock);
    Status release_all_durably(std::unique_lock<std::mutex>& lock);
    // The same for a file that several processes share: group_durability.cc.
    Status append_group_commit_writer(bool closing);
    [[nodiscard]] log::Statement survey_locked() const;
    Status state_group(log::Statement& statement);
    bool recycle_group_durably(std::unique_lock<std::mutex>& lock, bool newest_too);
    Status retire_group(std::unique_lock<std::mutex>& lock);
    Status sync_given_back();
    [[nodiscard]] std::size_t segments_to_give_back_locked() const noexcept;
    std::uint64_t next_sequence() noexcept { return share_ ? share_->next_sequence() : surroundings_.next_sequence(); }
    // A share, and another participant drains.
    [[nodiscard]] bool follows() const noexcept { return share_ && !share_->drains(); }
    void follow_locked(bool may_wait = false);
    bool look_locked(std::unique_lock<std::mutex>& lock, bool room_wanted);
    void append_own_writer(std::span<const Part> parts, const OwnRecords::Record& record);
    void index_own_locked();
    void index_own_batch_locked();
    bool gather_locked(bool may_wait);
    [[nodiscard]] bool gathered(const log::Segment* segment, std::uint64_t payload) const noexcept;
    bool plan_copy_locked(ByteRange all, CopyPlan& plan) const;
    [[nodiscard]] static bool unchanged(const StagedBytes& bytes) noexcept;
    static Result<bool> carry_out(const CopyPlan& plan, io::File& target, std::uint64_t offset, io::MutableBytes into);

    // room.cc: segments.
    Result<std::uint64_t> make_room_writer(std::uint64_t wanted_bytes, log::SegmentPool::Take take);
    bool adopt_writer(log::Segment* segment);
    // Why the log has not got a record.
    [[nodiscard]] Status log_failure() const;
    void give_back_first_writer();
    Result<std::uint64_t> await_room_writer(log::SegmentPool::Take take);
    Status make_marker_room_writer();
    void compact_writer();
    bool recycle_locked(bool newest_too = false);

    // file_drain.cc: the target's side.
    Status drain_writer();
    // patience.cc
    Status await_locked(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over);
    [[nodiscard]] Status timed_out_locked() const;
    [[nodiscard]] bool stalled_locked() const noexcept;
    [[nodiscard]] bool given_up() const noexcept;
    Taken take_locked();
    void plan_locked();
    // What a plan has come to. kTooLittle: what is there waits for its neighbours. kMore: nothing yet, and there is more to be looked at.
    enum class Found : std::uint8_t { kWrites, kNothing, kTooLittle, kMore };
    Found plan_from_locked(std::uint64_t begin);
    void release_locked(const plan::TargetWrite& write);
    void complete(const plan::TargetWrite& write, const Status& outcome, const Cost& cost, const std::vector<ByteRange>& unreadable);
    std::uint64_t forget_drained_locked(const plan::TargetWrite& write) noexcept;
    Taken take_resize_locked(std::uint64_t size);
    void complete_resize(std::uint64_t size, bool lengthened, const Status& outcome);
    void keep_error_locked(const Status& failure);
    static constexpr const char* kFailed = "a write failed";   // a failure's text, where there is no memory for it
    void failed_locked(const Status& failure);
    void tell_pace_locked() noexcept;
    void let_through_locked() noexcept;
    void drop_planned_locked();
    [[nodiscard]] bool pausing_locked() noexcept;
    void wait_out_pause_locked(std::unique_lock<std::mutex>& lock);
    [[nodiscard]] bool goes_through_after_failure() const;
    void wake();
    [[nodiscard]] bool look_again_locked() noexcept;
    [[nodiscard]] bool waits_for_target_locked() const noexcept;
    [[nodiscard]] bool worth_draining_locked() const noexcept;
    [[nodiscard]] bool readable_left_locked() const;
    // Records from here on may have older ones that are not known yet, and have to wait.
    [[nodiscard]] std::uint64_t complete_below_locked() const noexcept { return share_ ? share_->complete_below() : kOffsetMax; }
    [[nodiscard]] bool clogged_locked() const noexcept;
    [[nodiscard]] std::uint64_t ready_bytes_locked() const noexcept { return index_.ready_bytes() + own_.ready_bytes(); }
    [[nodiscard]] std::uint64_t pending_bytes_locked() const noexcept { return index_.pending_bytes() + own_.bytes(); }
    void update_ledger_locked();
    [[nodiscard]] Status background_error_locked() const;

    Surroundings& surroundings_;
    const io::Identity identity_;
    const std::string path_;
    const std::uint64_t log_number_;

    std::mutex writer_;
    std::shared_ptr<io::File> target_;            // changed under both locks

    mutable std::mutex mutex_;
    std::condition_variable completed_;           // a target write has ended
    std::uint64_t completions_ = 0;
    std::uint64_t progress_ns_ = 0;               // monotonic: something has reached the target
    State state_ = State::kPassive;               // changed under both locks
    std::unique_ptr<log::FileLog> log_;
    log::Segment* first_segment_ = nullptr;       // taken, and not in log_ yet; under writer_
    std::shared_ptr<Share> share_;                // changed under both locks; null: written by this process alone
    ExtentIndex index_;
    OwnRecords own_;                              // of the drainer of a shared file: not in the index yet
    OwnRecords::Batch own_batch_;                 // of those, being taken into it
    log::Gatherer gatherer_;
    std::vector<std::pair<const log::Segment*, std::uint64_t>> gathered_;   // of what is being followed: in the index already
    std::uint64_t logical_size_ = 0;              // what the program sees
    std::uint64_t committed_size_ = 0;
    std::uint64_t commit_sequence_ = 0, commit_time_ns_ = 0;
    std::uint64_t target_size_ = 0;               // of the file itself, writes in flight included
    bool dirty_ = false;                          // something changed since the last commit
    std::uint64_t resize_sequence_ = 0;           // of the last truncation

    std::deque<plan::TargetWrite> planned_;       // in flight already, as far as overlaps go
    RangeSet in_flight_;
    std::uint64_t in_flight_bytes_ = 0;
    std::optional<std::uint64_t> shrink_to_;      // cut the target before anything beyond is written
    bool resizing_ = false;                       // the target's size is being set
    std::size_t running_ = 0;                     // target writes being carried out
    std::uint64_t busy_since_ns_ = 0;
    drain::Concurrency concurrency_;
    TargetPace target_pace_;
    std::atomic<std::uint64_t> memory_pace_{0};   // target_pace_.of_memory(), without the lock
    log::WritesBeside beside_;                    // of a file that is not shared
    bool was_cut_ = false;                        // since it was opened, or is to be: cuts and zeros come to the target later than they are agreed on
    bool told_pace_ = false;                      // of a shared file: others may write straight to the target
    std::uint64_t plan_from_bytes_ = 0;           // after a fruitless plan: not again before so much is ready
    std::uint64_t cursor_ = 0;                    // where the next plan begins (elevator)
    std::uint64_t planned_since_start_bytes_ = 0; // since a plan began at the file's start
    bool wraps_ = false;                          // from the beginning of the file, once nothing is in flight
    bool urgent_ = false;                         // drain all that is ready, however little
    bool several_nodes_ = false;                  // see join
    bool all_written_ = false;                    // what was left for its neighbours has them now
    bool may_hang_ = true;                        // see TargetTraits
    std::atomic<std::uint64_t> stripe_{kStripeUnlessTold};
    bool durable_ = false;                        // commits are synced: option durability; changed under both locks
    bool recycling_ = false;                      // segments are being given back durably
    std::atomic<bool> target_unsynced_{false};    // written to beside the log, since it was synced
    Status target_lost_;                          // a sync of the target that failed
    std::shared_ptr<Syncing> syncing_;            // the last sync that a drain thread was given; null: none yet
    std::uint64_t durable_commit_ = 0;            // number of the commit being made
    std::mutex stating_;                          // a statement is being made; after writer_, before mutex_
    log::Statement stated_;                       // of a shared file, the last one; changed under stating_ and mutex_
    Status sync_error_;                           // the first one: nothing can be promised any more
    std::atomic<bool> log_failed_{false};         // its mapping has faulted: it takes nothing more
    RangeSet unreadable_;                         // ready, but could not be read back: not tried again until something changes
    bool left_log_ = false;                       // abandoned after another participant's failure
    unsigned attempts_ = 0;                       // that failed, since everything was last drained; on_error=retry
    std::uint64_t retry_at_ns_ = 0;               // nothing is written before that; 0: no pause
    bool halted_ = false;                         // after a failure, until a closing attempt
    Status background_error_;
    Status withheld_;                             // why `finish` leaves the log as it is

    log::LedgerSlot* slot_;                       // never null
    std::unique_ptr<log::LedgerSlot> own_slot_;   // until the engine gives one
};

}   // namespace forebay::stage
