// The state of one outflow: its parts, and the lock that guards them.
//
//   Planner      which ready bytes are written next, and whether that is worth a thread   drain/planner.h
//   WriteQueue   writes that are planned or in flight                                      drain/write_queue.h
//   Target       the target's file, its sizes, the notes about its state in the log        drain/target.h
//   TargetFacts  facts about the target that any thread may ask                            drain/target_facts.h
//   Turns        how the drain writes behind a close, when others may change the file      drain/turns.h
//   Failures     pauses, attempts, and the first error                                     drain/failures.h
//   Arrivals     waits for the target, with patience                                       drain/arrivals.h
//   TargetCalls  the calls in flight that may report a loss, and these reports             drain/target_calls.h
//
// `Outflow` owns the state. The classes that it is made of (drain/outflow.h) share it, and so does the file. This class
// changes several parts at once where that must happen together: opening, sharing, and failures. Invariants: a halted
// or pausing drain has no planned write, and a halted one no pace. The first failure is reported to the listener once.
// Each pause is reported to the listener, as the drain does not go on by itself. Thread-safety: `mutex`
// guards the staged bytes and all parts but the facts. It is the file's lock, and is never held across a call of the
// target. The caller of a function holds it. Nothing blocks, except `open`, which asks the target for its state.
#pragma once

#include <cstddef>
#include <cstdint>
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
#include "drain/target.h"
#include "drain/target_calls.h"
#include "drain/target_facts.h"
#include "drain/turns.h"
#include "drain/write_queue.h"
#include "io/file.h"

namespace forebay::drain {

class OutflowState {
  public:
    // All arguments but `drain_context` outlive the state. `file_path` is for messages.
    OutflowState(const DrainContext& drain_context, index::StagedBytes& staged_bytes, DrainListener& file_listener,
                 const std::string& file_path);
    OutflowState(const OutflowState&) = delete;
    OutflowState& operator=(const OutflowState&) = delete;

    // Begins with a target of `size` bytes. If the target may hang, a thread that waits with patience leaves all writes
    // to other threads; otherwise it writes too. `log_mount`: the mount of a durable log; 0: unknown. After an
    // earlier close the caller also calls `calls.open`: else final bytes of before stay unconfirmed.
    void open(std::shared_ptr<io::File> file, const io::FileTraits& traits, std::uint64_t size, std::uint64_t log_mount)
        REQUIRES(mutex);
    // Makes this process the drainer of a group of `processes` with records of `order`. `at_once`: see Planner::share.
    void share(group::RecordOrder& order, std::size_t processes, bool at_once) REQUIRES(mutex);

    // A background write or change of size has failed: pauses before another attempt, or halts.
    void fail(const Status& failure) REQUIRES(mutex);
    void halt(const Status& failure) REQUIRES(mutex);
    // A drain thread, or a call that drains, lacks memory to take work. The drain pauses, and tries again.
    void starve() noexcept REQUIRES(mutex);
    // A target write could not read these bytes of the log. All others go on.
    void lose(const std::vector<ByteRange>& unreadable, const Status& fault) REQUIRES(mutex);
    // After a failure of a target that reports failures late: earlier bytes may be lost, so all sent bytes are ready
    // again. If bytes may be lost that the log lacks, keeps the failure for good.
    void resend(const Status& failure) REQUIRES(mutex);
    // After a confirmation that failed for any reason: only makes all sent bytes ready again.
    void resend_sent(const Status& failure) REQUIRES(mutex);
    // A call beside the drain has failed. If writes are final, it may have got the report of the loss of any earlier
    // bytes, of this process or another one. Thread-safe.
    void note_failed_beside(const Status& failure) noexcept;
    [[nodiscard]] bool pausing() noexcept REQUIRES(mutex) { return failures.pausing(clock().now_ns()); }

    // Ends a call of the target, after its failure was handled. Returns true if a sync is over with it; the caller
    // tells the listener without the lock (`came_to_rest`).
    [[nodiscard]] bool end_call(const TargetCalls::Call& call) noexcept REQUIRES(mutex);
    // Begins a sync while none is in flight, and takes its answer, after its failure was handled. It is over once the
    // calls that overlapped with it are.
    void begin_sync(std::shared_ptr<AwaitedCall> sync) noexcept REQUIRES(mutex);
    void answer_sync(AwaitedCall& sync, const Status& outcome) noexcept REQUIRES(mutex);

    void note_cut() noexcept REQUIRES(mutex);
    // Publishes the pace of the target, for threads without the lock.
    void publish_pace() noexcept REQUIRES(mutex);

    [[nodiscard]] WaitClock& clock() const noexcept { return context.progress.clock(); }

    const DrainContext context;
    DrainListener& listener;
    const std::string& path;

    mutable Mutex mutex;
    index::StagedBytes& bytes GUARDED_BY(mutex);
    TargetFacts facts;
    Target target GUARDED_BY(mutex);
    Turns turns GUARDED_BY(mutex);
    WriteQueue queue GUARDED_BY(mutex);
    Failures failures GUARDED_BY(mutex);
    Arrivals arrivals GUARDED_BY(mutex);
    Planner planner GUARDED_BY(mutex);
    TargetCalls calls GUARDED_BY(mutex);

  private:
    void keep(const Status& failure) REQUIRES(mutex);
    // Ends the sync if its answer has come and no call overlaps with it any more. Returns true if it is over now.
    bool settle(AwaitedCall& sync) noexcept REQUIRES(mutex);
};

}   // namespace forebay::drain
