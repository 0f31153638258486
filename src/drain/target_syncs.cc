#include "drain/target_syncs.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "base/attempt.h"

namespace forebay::drain {

class TargetSyncs::SyncWork final : public Work {
  public:
    SyncWork(std::shared_ptr<TargetSyncs> syncs, std::shared_ptr<io::File> target, std::shared_ptr<AwaitedCall> call)
        : syncs_(std::move(syncs)), target_(std::move(target)), call_(std::move(call)) {}
    void run() noexcept override {
        syncs_->complete(*call_, reported([&] { return target_->sync(); }));
    }

  private:
    const std::shared_ptr<TargetSyncs> syncs_;
    const std::shared_ptr<io::File> target_;
    const std::shared_ptr<AwaitedCall> call_;
};

void TargetSyncs::complete(AwaitedCall& call, const Status& outcome) noexcept {
    if (outcome) state_.context.progress.note();
    {
        const LockGuard lock(state_.mutex);
        state_.listener.synced();
        if (!outcome) {
            if (state_.failures.target_lost().is_ok()) state_.failures.lose_target(outcome, state_.path);
            state_.halt(state_.failures.target_lost());
        }
        state_.answer_sync(call, outcome);
    }
    state_.listener.came_to_rest();
}

Status TargetSyncs::carry_out() {
    // The sync of another thread, or an abandoned one, may be in flight. It began before some writes that this sync
    // must cover, and may take the report about others.
    FOREBAY_TRY(state_.arrivals.await(state_.mutex, [this]() NO_THREAD_SAFETY_ANALYSIS {
        return !state_.arrivals.sync_in_flight();
    }));
    // A second sync would not report bytes that the first one lost.
    FOREBAY_TRY(state_.failures.target_lost());
    const auto mine = std::make_shared<AwaitedCall>();
    auto work = std::make_unique<SyncWork>(std::shared_ptr<TargetSyncs>(state_.listener.hold(), this),
                                           state_.target.file(), mine);
    const std::uint64_t covered = state_.facts.unsynced_count();
    state_.begin_sync(mine);
    {
        const Unlocked meanwhile(state_.mutex);
        if (state_.facts.may_hang()) state_.context.scheduler.carry_out(std::move(work));
        else work->run();
    }
    const Status waited = state_.arrivals.await(state_.mutex, [&mine] { return mine->done; });
    mine->given_up = !waited;
    FOREBAY_TRY(waited);
    if (mine->outcome) state_.facts.note_synced(covered);
    return copy_of(mine->outcome, Failures::kFailed);
}

Status TargetSyncs::sync() {
    state_.mutex.assert_held();
    const Status synced = attempt([this]() NO_THREAD_SAFETY_ANALYSIS { return carry_out(); });
    if (!synced) state_.facts.note_unsynced();
    return synced;
}

}   // namespace forebay::drain
