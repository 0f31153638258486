// The outflow of one file to its target: which staged bytes are written when, and what comes of that.
//
// It plans target writes from the ready bytes of the index, hands them to the drain threads, or to a thread that waits,
// and keeps the account of what is under way. It sets the target's size, syncs it, tries again what failed if option
// on_error says so, and stops if that is in vain. Failures of the background are kept here and told by whatever waits.
//
//   outflow.cc         taking writes, their ends, failures, the target's size, waiting until all is drained
//   outflow_plan.cc    what is written next
//   outflow_guard.cc   the target behind a close: whether another program has changed it
//   outflow_target.cc  the target's state, noted in the log for recovery; writes that go past the log; syncs
//
// The lock is the file's: it guards what is staged and what is under way alike, as a plan is made of both, and a commit
// changes both. It is held for short, never across a call of the target.
// Invariants:
//   - target writes in flight are disjoint, and nothing that overlaps one of them is planned: so two generations of a
//     byte never race to the target;
//   - what a target write looks at is pinned.
// Thread-safety: as the annotations say. Blocking: what drops the lock and takes it again says so. What waits for the
// target fails with ETIMEDOUT once nothing has reached it for as long as option patience says; nothing is lost by that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "drain/concurrency.h"
#include "drain/listener.h"
#include "drain/patience.h"
#include "drain/scheduler.h"
#include "drain/target_guard.h"
#include "drain/target_pace.h"
#include "extent/range_set.h"
#include "group/record_order.h"
#include "index/staged_bytes.h"
#include "io/file.h"
#include "io/file_control.h"
#include "log/target_witness.h"
#include "plan/merge.h"

namespace forebay::drain {

// What target writes are aligned to if neither an option nor the file system says.
inline constexpr std::uint64_t kStripeUnlessTold = std::uint64_t{1} << 20;

class Outflow final : public Source {
  public:
    // Drains the ready bytes of `bytes`, which the lock of this guards. All but `process` outlive this. `path` is for
    // messages.
    Outflow(const Process& process, index::StagedBytes& bytes, DrainListener& listener, const std::string& path);
    Outflow(const Outflow&) = delete;
    Outflow& operator=(const Outflow&) = delete;

    // The lock of the file.
    [[nodiscard]] Mutex& mutex() const RETURN_CAPABILITY(mutex_) { return mutex_; }

    // ---- the target -----------------------------------------------------------------------------

    // Begins afresh with a target of `size` bytes. If it may hang, a thread that waits with patience leaves all writing
    // to others; else it writes too. `log_mount`: where the log lies, of a durable one; 0: unknown.
    void open(std::shared_ptr<io::File> target, const io::FileTraits& traits, std::uint64_t size,
              std::uint64_t log_mount) REQUIRES(mutex_);
    // From now on the target is reached through this.
    void reach_through(std::shared_ptr<io::File> target) REQUIRES(mutex_) { target_ = std::move(target); }
    // This process drains for a group of so many processes, whose records have `order`. `at_once`: no piece waits for
    // its neighbours.
    void share(group::RecordOrder& order, std::size_t processes, bool at_once) REQUIRES(mutex_);
    // A shared file that another process drains.
    void follow() REQUIRES(mutex_) { shared_ = true; }
    // Other processes write to the target too from now on, or may; and may make it longer at any time.
    void note_external_writers() noexcept REQUIRES(mutex_);
    void note_external_growth() noexcept REQUIRES(mutex_);
    [[nodiscard]] bool others_extend() const noexcept REQUIRES(mutex_) { return others_extend_; }

    [[nodiscard]] std::uint64_t stripe() const noexcept { return stripe_.load(std::memory_order_relaxed); }
    // A call of the target may never return.
    [[nodiscard]] bool may_hang() const noexcept { return may_hang_.load(std::memory_order_relaxed); }
    // What draining TargetPace::kBytes takes, in ns, if the target is as fast as the log.
    [[nodiscard]] std::optional<std::uint64_t> pace() const noexcept {
        const std::uint64_t ns = pace_ns_.load(std::memory_order_relaxed);
        return ns != 0 ? std::optional(ns) : std::nullopt;
    }
    void forget_pace() noexcept REQUIRES(mutex_);
    // As far as is known of its file system, before anything was measured.
    [[nodiscard]] bool waits_for_target() const noexcept REQUIRES(mutex_);

    // Its size, writes in flight included.
    [[nodiscard]] std::uint64_t target_size() const noexcept REQUIRES(mutex_) { return target_size_; }
    void set_target_size(std::uint64_t size) noexcept REQUIRES(mutex_) { target_size_ = size; }
    void target_reaches(std::uint64_t end) noexcept REQUIRES(mutex_) { target_size_ = std::max(target_size_, end); }
    // Cuts and zeros come to the target later than they are agreed on.
    [[nodiscard]] bool was_cut() const noexcept REQUIRES(mutex_) { return was_cut_; }
    void note_cut() noexcept REQUIRES(mutex_);
    // The target is to be cut to this, before anything beyond is written.
    [[nodiscard]] std::optional<std::uint64_t> cut_due() const noexcept REQUIRES(mutex_) { return cut_due_; }
    // Sets the target's size. Nothing else is under way. Blocks with patience; drops the lock.
    Status resize_target(std::uint64_t size) REQUIRES(mutex_);

    // ---- behind a close -------------------------------------------------------------------------

    // The program has closed the file, and other programs may write it from now on: the drain goes on as long as none
    // has. Until the next `open`. Programs of this machine wait with their open, where the file system has leases.
    void guard() REQUIRES(mutex_);
    // The drain is over: who waits to open the file, or to cut it, goes on.
    void let_others_open() noexcept REQUIRES(mutex_) { lease_.reset(); }
    // One has. What was not drained stays in the log, and nothing is written any more.
    [[nodiscard]] bool target_changed() const noexcept REQUIRES(mutex_) { return guard_.changed(); }
    // So many bytes had not drained when the target was first seen to have lost its last name.
    [[nodiscard]] std::uint64_t nameless_bytes() const noexcept REQUIRES(mutex_) { return nameless_bytes_; }

    // ---- draining -------------------------------------------------------------------------------

    // Has a drain thread come, or does its work if there is none to be had.
    void wake() EXCLUDES(mutex_);
    Taken take() override EXCLUDES(mutex_);
    // A drain thread more would find something to do.
    [[nodiscard]] bool wants_thread() const noexcept REQUIRES(mutex_) {
        return running_ < concurrency_.allowed() && worth_draining();
    }
    // A commit has made everything ready. True: a thread is wanted.
    [[nodiscard]] bool committed() noexcept REQUIRES(mutex_);
    // All that is ready is to go, however little it is.
    void hurry() noexcept REQUIRES(mutex_);
    // What was left for its neighbours has them now, or had better not wait.
    [[nodiscard]] bool hurries() const noexcept REQUIRES(mutex_) { return urgent_; }
    // Room is needed: all that may go is to go at once. Whether a thread is wanted, and whether anything is under way.
    struct Pressed {
        bool wants_thread = false, under_way = false;
    };
    Pressed press() REQUIRES(mutex_);
    // Plans no write until `resume_drain`, `press` (a write needs room) or `drain` (a call waits for the target).
    // Planned writes go on. Does nothing with several nodes: other nodes wait for the bytes.
    void pause_drain() noexcept REQUIRES(mutex_) { paused_ = !at_once_; }
    // True: a thread is wanted.
    [[nodiscard]] bool resume_drain() noexcept REQUIRES(mutex_) {
        paused_ = false;
        return look_again();
    }
    [[nodiscard]] bool drain_paused() const noexcept REQUIRES(mutex_) { return paused_; }
    // Until nothing is ready any more; with `below`, nothing of a record with a lower number. Drops the lock. Reports
    // the error that is kept.
    Status drain(std::uint64_t below = kOffsetMax) REQUIRES(mutex_);
    // Makes the target as long as the last commit says, if that takes no long time. Drops the lock.
    Status show_size() REQUIRES(mutex_);

    // No write and no change of size is under way.
    [[nodiscard]] bool idle() const noexcept REQUIRES(mutex_) { return in_flight_.empty() && !resizing_; }
    [[nodiscard]] bool nothing_in_flight() const noexcept REQUIRES(mutex_) { return in_flight_.empty(); }

    // Until `over()` is true. Drops the lock.
    Status await(const std::function<bool()>& over) REQUIRES(mutex_);
    // Until something ends. Drops the lock.
    Status await_next() REQUIRES(mutex_);
    // Something has ended, or come, that somebody may wait for.
    void announce() noexcept REQUIRES(mutex_);
    // ... that is no step forward.
    void announce_unpinned() noexcept { ended_.notify_all(); }
    // The pause before an attempt that comes again is over. Drops the lock.
    void wait_out_pause() REQUIRES(mutex_);
    // Writes are under way, and none has ended for so long as patience lasts.
    [[nodiscard]] bool stalled() const noexcept REQUIRES(mutex_);
    [[nodiscard]] Status timed_out() const REQUIRES(mutex_);

    // ---- failures -------------------------------------------------------------------------------

    // After a failure: nothing is written until a closing attempt.
    [[nodiscard]] bool halted() const noexcept REQUIRES(mutex_) { return halted_; }
    void halt(const Status& failure) REQUIRES(mutex_);
    // A closing attempt: what failed, or could not be read, may go after all.
    void try_again() noexcept REQUIRES(mutex_);
    void resume() noexcept REQUIRES(mutex_) { halted_ = false; }
    // Tries again what has failed. What has become whole is whole: if the target has everything now, the failure is
    // forgotten. Drops the lock.
    void make_good() REQUIRES(mutex_);
    // Something has changed: what could not be read back is tried once more.
    void retry_unreadable() noexcept REQUIRES(mutex_) { unreadable_.clear(); }
    // The first failure; as it was, and for those who are told of it later.
    [[nodiscard]] const Status& first_error() const noexcept REQUIRES(mutex_) { return error_; }
    [[nodiscard]] Status error() const REQUIRES(mutex_);
    static constexpr const char* kFailed = "a write failed";   // a failure's text, where there is no memory for it

    // ---- writes that go past the log ------------------------------------------------------------

    // The calling thread is about to write these bytes; what overlaps them has come, or been cut, before. Drops the
    // lock.
    Status begin_bypass(std::uint64_t offset, io::Bytes bytes) REQUIRES(mutex_);
    void end_bypass(ByteRange range, bool written) noexcept REQUIRES(mutex_);
    // The target has the range, and nothing older than that may come to it any more.
    void bypassed(ByteRange range) noexcept REQUIRES(mutex_);
    // After the end of a write: whether there is something to take now. What would not go beside the writes in flight
    // is planned once they have all ended.
    [[nodiscard]] bool look_again() noexcept REQUIRES(mutex_);
    // If the target has come to rest, notes in the log how it is. Asks the target.
    void watch_rest() noexcept EXCLUDES(mutex_);

    // ---- durability -----------------------------------------------------------------------------

    // Written to past the log since it was synced.
    [[nodiscard]] bool unsynced() const noexcept { return unsynced_; }
    void note_unsynced() noexcept { unsynced_ = true; }
    // An error with ETIMEDOUT: given up, and nothing is known. Any other one is for good. Drops the lock.
    Status sync() REQUIRES(mutex_);
    // A sync was given up, and is under way still.
    [[nodiscard]] bool sync_hangs() const noexcept REQUIRES(mutex_);
    // Of a sync that failed.
    [[nodiscard]] const Status& target_lost() const noexcept REQUIRES(mutex_) { return target_lost_; }

  private:
    class WriteWork;
    class ResizeWork;
    class SyncWork;
    struct Cost;
    // A sync of the target, or a change of its size. The caller may give it up; its outcome, which the system
    // tells once, is kept all the same.
    struct Syncing {
        bool done = false, given_up = false;   // guarded by the lock
        Status outcome;
    };
    // What a plan has come to. kTooLittle: what is there waits for its neighbours. kMore: nothing yet, and there is
    // more to be looked at.
    enum class Found : std::uint8_t { kWrites, kNothing, kTooLittle, kMore };

    // outflow.cc
    Taken take_next() REQUIRES(mutex_);
    Taken take_resize(std::uint64_t size, std::shared_ptr<Syncing> told = nullptr) REQUIRES(mutex_);
    void carry_out(Taken taken) REQUIRES(mutex_);
    [[nodiscard]] bool given_up() const noexcept EXCLUDES(mutex_);
    void complete(const plan::TargetWrite& write, const Status& outcome, const Cost& cost,
                  const std::vector<ByteRange>& unreadable, bool begun) EXCLUDES(mutex_);
    void complete_resize(std::uint64_t size, bool lengthened, const Status& outcome, bool begun, Syncing* told)
        EXCLUDES(mutex_);
    void learn_pace(const plan::TargetWrite& write, const Cost& cost) noexcept REQUIRES(mutex_);
    void tell_pace() noexcept REQUIRES(mutex_);
    void failed(const Status& failure) REQUIRES(mutex_);
    void lost(const std::vector<ByteRange>& unreadable, const Status& fault) REQUIRES(mutex_);
    void keep(const Status& failure) REQUIRES(mutex_);
    [[nodiscard]] bool pausing() noexcept REQUIRES(mutex_);
    [[nodiscard]] bool drained_below(std::uint64_t below) const REQUIRES(mutex_);
    [[nodiscard]] bool readable_left() const REQUIRES(mutex_);
    [[nodiscard]] bool is_being_lengthened(std::uint64_t committed_size) const noexcept REQUIRES(mutex_);
    // outflow_guard.cc
    // Nothing may begin now: others have to end, or are looking at the target.
    [[nodiscard]] bool turn_is_taken() const noexcept REQUIRES(mutex_) {
        return guard_.on() && (looking_ || (acting_ > 0 && !turn_open_));
    }
    // How a write or a change of size belongs to a turn. kNone: it belongs to none, since it was taken before a
    // deferred close. kBegins: it looks at the target first. kJoins: it runs beside others of the turn.
    enum class Turn : std::uint8_t { kNone, kBegins, kJoins };
    // Returns the turn of the work that is taken next.
    [[nodiscard]] Turn next_turn() const noexcept REQUIRES(mutex_) {
        if (!guard_.on()) return Turn::kNone;
        return acting_ == 0 ? Turn::kBegins : Turn::kJoins;
    }
    [[nodiscard]] Turn take_turn() noexcept REQUIRES(mutex_);
    // Returns true if the drain must lengthen the target before it writes: after a deferred close, but not for shared
    // files, nor where others extend the file. A cut by another program then shows in the size, even if it falls
    // between a look and a write that would lengthen the target again.
    [[nodiscard]] bool size_comes_first() const noexcept REQUIRES(mutex_);
    // Returns false if a close has returned since the work was taken. The caller then calls put_off.
    [[nodiscard]] bool may_begin(Turn turn) const noexcept EXCLUDES(mutex_);
    // Ends work that has not begun. `write` goes back to the bytes that are ready; null: the work was a change of size.
    // Such work is taken again later, in a turn.
    void put_off(io::File& target, const plan::TargetWrite* write) noexcept EXCLUDES(mutex_);
    Status begin_turn(io::File& target) noexcept EXCLUDES(mutex_);
    // Of all that was taken; `note` tells the guard. Looks what the turn has left, if that was the last of it.
    using NoteEnd = std::function<void(TargetGuard&)>;
    Status end_turn(io::File& target, const NoteEnd& note) noexcept EXCLUDES(mutex_);
    Status look_before_turn(io::File& target) EXCLUDES(mutex_);
    Status look_after_turn(io::File& target) EXCLUDES(mutex_);
    Status others_changed() REQUIRES(mutex_);
    // outflow_plan.cc
    void plan() REQUIRES(mutex_);
    Found plan_from(std::uint64_t begin) REQUIRES(mutex_);
    void add_planned(plan::TargetWrite write) REQUIRES(mutex_);
    void drop_planned() REQUIRES(mutex_);
    // Ends a planned write that has not begun.
    void drop(const plan::TargetWrite& write) REQUIRES(mutex_);
    void release(const plan::TargetWrite& write) REQUIRES(mutex_);
    [[nodiscard]] bool worth_draining() const noexcept REQUIRES(mutex_);
    // Visits the ready extents from `offset` on as plan::Piece, ascending, the one that holds `offset` as a whole,
    // until `visit` returns false.
    template <class Visit>
    void walk_ready(std::uint64_t offset, Visit&& visit) const REQUIRES(mutex_) {
        bytes_.index().walk_ready(offset, [&](ByteRange range, const index::StagedPlace& at) {
            return visit(plan::Piece{range, at.data(), at.sequence, at.keeper()});
        });
    }
    // outflow_target.cc
    void note_target() noexcept REQUIRES(mutex_) { listener_.note(witness_.state()); }
    void begin_write(ByteRange range, io::Bytes sample) noexcept REQUIRES(mutex_);
    void begin_write(const plan::TargetWrite& write) noexcept EXCLUDES(mutex_);
    // Notes what a write of `range` is about to change, if nothing else is known of the target's content.
    void look_before_write(ByteRange range) noexcept EXCLUDES(mutex_);
    void go_on_with_write() noexcept EXCLUDES(mutex_);
    void end_write(ByteRange range, bool written) noexcept REQUIRES(mutex_);
    void begin_resize(std::uint64_t size) noexcept EXCLUDES(mutex_);
    void end_resize(bool done) noexcept REQUIRES(mutex_);
    Status sync_by_drain_thread() REQUIRES(mutex_);
    void complete_sync(Syncing& syncing, const Status& outcome) noexcept EXCLUDES(mutex_);
    // Of the target, now.
    [[nodiscard]] std::shared_ptr<Outflow> self() { return {listener_.hold(), this}; }
    [[nodiscard]] WaitClock& clock() const noexcept { return process_.progress.clock(); }

    const Process process_;
    DrainListener& listener_;
    const std::string& path_;

    mutable Mutex mutex_;
    index::StagedBytes& bytes_ GUARDED_BY(mutex_);
    group::RecordOrder* order_ GUARDED_BY(mutex_) = nullptr;   // null: this process alone writes the file
    Condition ended_;   // a write, a change of size or a sync has ended; or something has come
    std::uint64_t ends_ GUARDED_BY(mutex_) = 0;
    std::uint64_t size_late_at_ GUARDED_BY(mutex_) = kOffsetMax;   // of these, when a flush last waited for the size in
                                                                   // vain
    std::uint64_t progress_ns_ GUARDED_BY(mutex_) = 0;             // monotonic: something has reached the target

    std::shared_ptr<io::File> target_ GUARDED_BY(mutex_);
    log::TargetWitness witness_ GUARDED_BY(mutex_);
    TargetGuard guard_ GUARDED_BY(mutex_);
    std::unique_ptr<io::Lease> lease_ GUARDED_BY(mutex_);   // behind a close, where there are leases
    std::uint64_t nameless_bytes_ GUARDED_BY(mutex_) = 0;
    std::size_t acting_ GUARDED_BY(mutex_) = 0;   // calls of the target that were taken, and have not returned
    bool turn_open_ GUARDED_BY(mutex_) = false;   // behind a close: more may begin beside those that are under way
    bool looking_ GUARDED_BY(mutex_) = false;     // ... a turn has ended, and the target is being looked at
    bool size_in_doubt_ GUARDED_BY(
        mutex_) = false;   // a write or a change of size has failed, and may have come in part
    std::atomic<std::uint64_t> stripe_{kStripeUnlessTold};
    std::atomic<bool> may_hang_{true};                   // see io::FileTraits
    std::uint64_t target_size_ GUARDED_BY(mutex_) = 0;   // writes in flight included
    std::uint64_t shown_size_ GUARDED_BY(mutex_) = 0;    // the same without them: it is no shorter now
    std::optional<std::uint64_t> cut_due_ GUARDED_BY(mutex_);
    bool resizing_ GUARDED_BY(mutex_) = false;   // its size is being set
    bool was_cut_ GUARDED_BY(mutex_) = false;    // since it was opened, or is to be
    bool others_extend_ GUARDED_BY(mutex_) = false;
    TargetPace target_pace_ GUARDED_BY(mutex_);
    std::atomic<std::uint64_t> pace_ns_{0};   // what `pace` says, without the lock; 0: nothing

    std::deque<plan::TargetWrite> planned_ GUARDED_BY(mutex_);   // in flight already, as far as overlaps go
    RangeSet in_flight_ GUARDED_BY(mutex_);
    std::uint64_t in_flight_bytes_ GUARDED_BY(mutex_) = 0;
    std::size_t running_ GUARDED_BY(mutex_) = 0;   // target writes being carried out
    std::uint64_t busy_since_ns_ GUARDED_BY(mutex_) = 0;
    Concurrency concurrency_ GUARDED_BY(mutex_);
    std::uint64_t plan_from_bytes_ GUARDED_BY(
        mutex_) = 0;                                // after a fruitless plan: not again before so much is ready
    std::uint64_t cursor_ GUARDED_BY(mutex_) = 0;   // where the next plan begins (elevator)
    std::uint64_t planned_since_start_bytes_ GUARDED_BY(mutex_) = 0;   // since a plan began at the file's start
    bool wraps_ GUARDED_BY(mutex_) = false;    // from the beginning of the file, once nothing is in flight
    bool urgent_ GUARDED_BY(mutex_) = false;   // drain all that is ready, however little
    bool shared_ GUARDED_BY(mutex_) = false;
    bool at_once_ GUARDED_BY(mutex_) = false;   // see share
    bool paused_ GUARDED_BY(mutex_) = false;

    RangeSet unreadable_ GUARDED_BY(mutex_);     // ready, but could not be read back: not tried again until something
                                                 // changes
    unsigned attempts_ GUARDED_BY(mutex_) = 0;   // that failed, since everything was last drained; on_error=retry
    std::uint64_t retry_at_ns_ GUARDED_BY(mutex_) = 0;   // nothing is written before that; 0: no pause
    bool halted_ GUARDED_BY(mutex_) = false;
    Status error_ GUARDED_BY(mutex_);

    std::atomic<bool> unsynced_{false};
    Status target_lost_ GUARDED_BY(mutex_);
    std::shared_ptr<Syncing> syncing_ GUARDED_BY(
        mutex_);   // the last one that a drain thread was given; null: none yet
};

}   // namespace forebay::drain
