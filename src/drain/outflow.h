// The outflow of one file: writes its staged bytes to its target.
//
// An outflow gives target writes to drain threads, or to a thread that waits, and tracks those in flight. It sets the
// target's size and syncs it. It repeats failed writes as option on_error says, and halts if that fails. It keeps the
// first background failure for later calls of the program. Its parts:
//
//   Planner      which ready bytes are written next, and whether that is worth a thread   drain/planner.h
//   WriteQueue   writes that are planned or in flight                                      drain/write_queue.h
//   Target       the target's file, its sizes, the notes about its state in the log        drain/target.h
//   TargetFacts  facts about the target that any thread may ask                            drain/target_facts.h
//   Turns        how the drain writes behind a close, when others may change the file      drain/turns.h
//   Failures     pauses, attempts, and the first error                                     drain/failures.h
//   Arrivals     waits for the target, with patience                                       drain/arrivals.h
//
//   outflow.cc         ends of writes, commits, failures, calls that wait until bytes have drained
//   outflow_work.cc    the work of drain threads: how it is taken and carried out
//   outflow_guard.cc   looks at the target behind a close
//   outflow_target.cc  notes in the log around a change; writes that bypass the log; syncs
//   outflow_confirm.cc bytes that the target has taken and may still lose
//
// The lock is the file's. It guards the staged bytes and all parts, since plans and commits involve both. It is never
// held across a call of the target. Thread-safety: as annotated. Blocking: a function that drops the lock says so. A
// wait for the target fails with ETIMEDOUT once nothing has reached it for the time in option patience; no byte is lost
// then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "drain/arrivals.h"
#include "drain/failures.h"
#include "drain/listener.h"
#include "drain/patience.h"
#include "drain/planner.h"
#include "drain/scheduler.h"
#include "drain/target.h"
#include "drain/target_facts.h"
#include "drain/turns.h"
#include "drain/write_queue.h"
#include "io/file.h"

namespace forebay::drain {

class Outflow final : public WorkSource {
  public:
    // Drains the ready bytes of `bytes`, which this lock guards. All arguments but `context` outlive the outflow.
    // `path` is for messages.
    Outflow(const DrainContext& context, index::StagedBytes& bytes, DrainListener& listener, const std::string& path);
    Outflow(const Outflow&) = delete;
    Outflow& operator=(const Outflow&) = delete;

    [[nodiscard]] Mutex& mutex() const RETURN_CAPABILITY(mutex_) { return mutex_; }

    [[nodiscard]] TargetFacts& facts() noexcept { return facts_; }
    [[nodiscard]] const TargetFacts& facts() const noexcept { return facts_; }
    [[nodiscard]] Target& target() noexcept REQUIRES(mutex_) { return target_; }
    [[nodiscard]] const Target& target() const noexcept REQUIRES(mutex_) { return target_; }
    [[nodiscard]] Turns& turns() noexcept REQUIRES(mutex_) { return turns_; }
    [[nodiscard]] const Turns& turns() const noexcept REQUIRES(mutex_) { return turns_; }
    [[nodiscard]] Failures& failures() noexcept REQUIRES(mutex_) { return failures_; }
    [[nodiscard]] const Failures& failures() const noexcept REQUIRES(mutex_) { return failures_; }
    [[nodiscard]] Planner& planner() noexcept REQUIRES(mutex_) { return planner_; }
    [[nodiscard]] const Planner& planner() const noexcept REQUIRES(mutex_) { return planner_; }
    [[nodiscard]] const WriteQueue& queue() const noexcept REQUIRES(mutex_) { return queue_; }
    [[nodiscard]] Arrivals& arrivals() noexcept REQUIRES(mutex_) { return arrivals_; }

    // ---- opening and closing --------------------------------------------------------------------

    // Begins with a target of `size` bytes. If the target may hang, a thread that waits with patience leaves all writes
    // to other threads; otherwise it writes too. `log_mount`: the mount of a durable log; 0: unknown.
    void open(std::shared_ptr<io::File> target, const io::FileTraits& traits, std::uint64_t size,
              std::uint64_t log_mount) REQUIRES(mutex_);
    // Makes this process the drainer of a group of `processes` whose records have `order`. `at_once`: no piece waits
    // for its neighbours.
    void share(group::RecordOrder& order, std::size_t processes, bool at_once) REQUIRES(mutex_);
    // Drains behind a close until the next `open`: other programs may write the file, and a change by one stops the
    // drain.
    void begin_turns() REQUIRES(mutex_);

    // ---- draining -------------------------------------------------------------------------------

    // Wakes a drain thread, or does its work if there is none.
    void wake() EXCLUDES(mutex_);
    Taken take() override EXCLUDES(mutex_);
    // Notes a commit, which makes all staged bytes ready. Returns true if a thread is wanted.
    [[nodiscard]] bool committed() noexcept REQUIRES(mutex_);
    // Notes that the program has cut the file.
    void note_cut() noexcept REQUIRES(mutex_);
    // Drains until no byte is ready or, with `below`, none of a record with a lower number. Returns the kept error.
    // Drops the lock.
    Status drain(std::uint64_t below = kOffsetMax) REQUIRES(mutex_);
    // Sets the target to the size of the last commit, unless that takes long. Drops the lock.
    Status show_size() REQUIRES(mutex_);
    // Sets the target's size while no other call of the target is in flight. Blocks with patience; drops the lock.
    Status resize_target(std::uint64_t size) REQUIRES(mutex_);

    // ---- failures -------------------------------------------------------------------------------

    void halt(const Status& failure) REQUIRES(mutex_);
    // Repeats all failed work, and forgets the failure if the target then has all bytes. Drops the lock.
    void make_good() REQUIRES(mutex_);

    // ---- writes that bypass the log -------------------------------------------------------------

    // Before the calling thread writes these bytes: waits for overlapping writes and cuts. Drops the lock.
    Status begin_bypass(std::uint64_t offset, io::Bytes bytes) REQUIRES(mutex_);
    // After the write. If it succeeded, the target has the range, and no older bytes of it may reach the target.
    void end_bypass(ByteRange range, const Status& written) noexcept REQUIRES(mutex_);
    // Notes the state of an idle target in the log. Asks the target.
    void watch_rest() noexcept EXCLUDES(mutex_);

    // ---- durability -----------------------------------------------------------------------------

    // Errors: ETIMEDOUT: patience is over and the outcome unknown. Any other error is final. Drops the lock.
    Status sync() REQUIRES(mutex_);

    // ---- targets that report failures late (io::FileTraits) ---------------------------------------
    //
    // The log keeps the bytes that such a target has taken until a later call confirms them. A failure of any call may
    // be that of an earlier write, so all unconfirmed bytes drain again. A failed confirmation counts as a failed
    // write.

    // How the target confirms. kSync: the servers have the bytes. kClose: as for a native program that closes the file.
    enum class Confirm : std::uint8_t { kSync, kClose };
    // Waits until the target has confirmed all sent bytes. Returns its failure, after which they are ready again, or
    // ETIMEDOUT. Drops the lock.
    Status confirm(Confirm how) REQUIRES(mutex_);
    // Has a drain thread ask the target to confirm the sent bytes. Returns true if one asks now.
    bool confirm_soon() EXCLUDES(mutex_);

  private:
    class WriteWork;
    class ResizeWork;
    class SyncWork;
    class ConfirmWork;
    struct Cost;

    // outflow_work.cc
    Taken take_next() REQUIRES(mutex_);
    // `told` belongs to the call that waits for the outcome; null if none does.
    Taken take_resize(std::uint64_t size, std::shared_ptr<AwaitedCall> told = nullptr) REQUIRES(mutex_);
    void carry_out(Taken taken) REQUIRES(mutex_);
    [[nodiscard]] bool given_up() const noexcept EXCLUDES(mutex_);
    // outflow.cc
    void complete(const plan::TargetWrite& write, const Status& outcome, const Cost& cost,
                  const std::vector<ByteRange>& unreadable, bool begun) EXCLUDES(mutex_);
    void complete_resize(std::uint64_t size, bool lengthened, const Status& outcome, bool begun, AwaitedCall* told)
        EXCLUDES(mutex_);
    void learn_pace(const plan::TargetWrite& write, const Cost& cost) noexcept REQUIRES(mutex_);
    void tell_pace() noexcept REQUIRES(mutex_);
    void failed(const Status& failure) REQUIRES(mutex_);
    void lost(const std::vector<ByteRange>& unreadable, const Status& fault) REQUIRES(mutex_);
    void keep(const Status& failure) REQUIRES(mutex_);
    [[nodiscard]] bool pausing() noexcept REQUIRES(mutex_) { return failures_.pausing(clock().now_ns()); }
    [[nodiscard]] bool is_being_lengthened(std::uint64_t committed_size) const noexcept REQUIRES(mutex_);
    // outflow_guard.cc
    // True if the drain must lengthen the target before it writes: behind a close, unless other processes write or
    // extend the file. The size then shows a cut by another program, even one between a look and a write that would
    // lengthen the target again.
    [[nodiscard]] bool size_comes_first() const noexcept REQUIRES(mutex_);
    [[nodiscard]] bool may_begin(Turn turn) const noexcept EXCLUDES(mutex_);
    // Ends work that has not begun; the drain takes it again later. `write` is null for a change of size.
    void put_off(io::File& target, const plan::TargetWrite* write) noexcept EXCLUDES(mutex_);
    Status begin_turn(io::File& target) noexcept EXCLUDES(mutex_);
    using NoteEnd = std::function<void(TargetGuard&)>;
    // Ends work that was taken; `note` tells the guard its effect. After the last work of a turn it looks at the
    // target.
    Status end_turn(io::File& target, const NoteEnd& note) noexcept EXCLUDES(mutex_);
    Status look_before_turn(io::File& target) EXCLUDES(mutex_);
    Status look_after_turn(io::File& target) EXCLUDES(mutex_);
    Status others_changed() REQUIRES(mutex_);
    // outflow_target.cc
    void begin_write(const plan::TargetWrite& write) noexcept EXCLUDES(mutex_);
    // Notes the bytes that a write of `range` will change, if the witness has no other sample.
    void look_before_write(ByteRange range) noexcept EXCLUDES(mutex_);
    Status sync_by_drain_thread() REQUIRES(mutex_);
    [[nodiscard]] std::unique_ptr<Work> begin_confirm(Confirm how, std::shared_ptr<AwaitedCall> call) REQUIRES(mutex_);
    void complete_confirm(AwaitedCall& call, const Status& outcome) noexcept EXCLUDES(mutex_);
    // True if so many bytes wait for a confirmation that a drain thread should ask.
    [[nodiscard]] bool confirm_due() const noexcept REQUIRES(mutex_);
    // After a failure of the target, with which earlier bytes may be lost: makes all sent bytes ready again.
    void resend(const Status& failure) REQUIRES(mutex_);
    void complete_sync(AwaitedCall& call, const Status& outcome) noexcept EXCLUDES(mutex_);

    [[nodiscard]] std::shared_ptr<Outflow> self() { return {listener_.hold(), this}; }
    [[nodiscard]] WaitClock& clock() const noexcept { return context_.progress.clock(); }

    const DrainContext context_;
    DrainListener& listener_;
    const std::string& path_;

    mutable Mutex mutex_;
    index::StagedBytes& bytes_ GUARDED_BY(mutex_);
    TargetFacts facts_;
    Target target_ GUARDED_BY(mutex_);
    Turns turns_ GUARDED_BY(mutex_);
    WriteQueue queue_ GUARDED_BY(mutex_);
    Failures failures_ GUARDED_BY(mutex_);
    Arrivals arrivals_ GUARDED_BY(mutex_);
    Planner planner_ GUARDED_BY(mutex_);
};

}   // namespace forebay::drain
