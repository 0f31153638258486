#include "drain/target_syncs.h"

#include <memory>
#include <new>
#include <utility>

#include "base/attempt.h"

namespace forebay::drain {

class TargetSyncs::SyncWork final : public Work {
  public:
    SyncWork(std::shared_ptr<TargetSyncs> syncs, std::shared_ptr<io::File> target, std::shared_ptr<AwaitedCall> call)
        : syncs_(std::move(syncs)), target_(std::move(target)), call_(std::move(call)) {}
    void run() noexcept override { syncs_->complete(*call_, target_->sync()); }

  private:
    const std::shared_ptr<TargetSyncs> syncs_;
    const std::shared_ptr<io::File> target_;
    const std::shared_ptr<AwaitedCall> call_;
};

void TargetSyncs::complete(AwaitedCall& call, const Status& outcome) noexcept {
    if (outcome) state_.context.progress.note();
    const LockGuard lock(state_.mutex);
    state_.listener.synced();
    if (call.confirms) state_.bytes.index().sent().end_confirm(outcome.is_ok());
    if (outcome) {
        state_.arrivals.note_progress();
    } else if (state_.failures.target_lost().is_ok()) {
        state_.failures.lose_target(outcome, state_.path);
        state_.halt(state_.failures.target_lost());
    }
    call.outcome = copy_of(state_.failures.target_lost(), Failures::kFailed);
    call.done = true;
    state_.arrivals.announce_unpinned();
}

// An abandoned sync may still be in flight. It began before the writes that this sync must cover.
Status TargetSyncs::sync_by_drain_thread() {
    FOREBAY_TRY(state_.arrivals.await(state_.mutex, [this]() NO_THREAD_SAFETY_ANALYSIS {
        return !state_.arrivals.sync() || state_.arrivals.sync()->done;
    }));
    const auto mine = std::make_shared<AwaitedCall>();
    auto work = std::make_unique<SyncWork>(std::shared_ptr<TargetSyncs>(state_.listener.hold(), this),
                                           state_.target.file(), mine);
    mine->confirms = state_.bytes.index().sent().begin_confirm();
    state_.arrivals.begin_sync(mine);
    {
        const Unlocked meanwhile(state_.mutex);
        state_.context.scheduler.carry_out(std::move(work));
    }
    const Status waited = state_.arrivals.await(state_.mutex, [&mine] { return mine->done; });
    mine->given_up = !waited;
    return waited ? mine->outcome : waited;
}

Status TargetSyncs::sync() {
    state_.mutex.assert_held();
    // A second sync would not report bytes that the first one lost.
    if (!state_.failures.target_lost().is_ok()) return state_.failures.target_lost();
    state_.facts.begin_sync();
    try {
        if (state_.facts.may_hang()) {
            const Status synced = sync_by_drain_thread();
            if (!synced) state_.facts.note_unsynced();
            return synced;
        }
    } catch (const std::bad_alloc&) {
        // Without memory this thread syncs.
    }
    AwaitedCall call;
    call.confirms = state_.bytes.index().sent().begin_confirm();
    const std::shared_ptr<io::File> target = state_.target.file();
    const Unlocked meanwhile(state_.mutex);
    complete(call, target->sync());
    return call.outcome;
}

}   // namespace forebay::drain
