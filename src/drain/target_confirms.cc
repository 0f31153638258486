#include "drain/target_confirms.h"

#include <algorithm>
#include <new>
#include <utility>

namespace forebay::drain {

namespace {

// So many bytes, or this share of the log, wait for one sync.
constexpr std::uint64_t kSentMax = std::uint64_t{64} << 20;
constexpr std::uint64_t kSentShare = 8;

}   // namespace

class TargetConfirms::ConfirmWork final : public Work {
  public:
    ConfirmWork(std::shared_ptr<TargetConfirms> confirms, std::shared_ptr<io::File> target,
                std::shared_ptr<AwaitedCall> call, Confirm how)
        : confirms_(std::move(confirms)), target_(std::move(target)), call_(std::move(call)), how_(how) {}
    void run() noexcept override {
        confirms_->complete(*call_,
                            reported([&] { return how_ == Confirm::kSync ? target_->sync() : target_->flush(); }));
    }

  private:
    const std::shared_ptr<TargetConfirms> confirms_;
    const std::shared_ptr<io::File> target_;
    const std::shared_ptr<AwaitedCall> call_;
    const Confirm how_;
};

std::unique_ptr<Work> TargetConfirms::begin(Confirm how, std::shared_ptr<AwaitedCall> call) {
    auto work = std::make_unique<ConfirmWork>(std::shared_ptr<TargetConfirms>(state_.listener.hold(), this),
                                              state_.target.file(), call, how);
    state_.begin_sync(std::move(call));
    return work;
}

bool TargetConfirms::due() const noexcept {
    state_.mutex.assert_held();
    return state_.facts.reports_late() && !state_.failures.halted() && !state_.arrivals.sync_in_flight() &&
           state_.bytes.index().sent().bytes() >= std::min(kSentMax, state_.context.options.size / kSentShare);
}

bool TargetConfirms::ask() {
    std::unique_ptr<Work> work;
    {
        const LockGuard lock(state_.mutex);
        if (!state_.facts.reports_late() || !state_.bytes.index().sent().any()) return false;
        if (state_.arrivals.sync_in_flight()) return true;
        try {
            work = begin(Confirm::kSync, std::make_shared<AwaitedCall>());
        } catch (const std::bad_alloc&) {
            return false;   // the next write, or the close, asks again
        }
    }
    state_.context.scheduler.carry_out(std::move(work));
    return true;
}

bool TargetConfirms::wanted(Confirm how) const noexcept {
    return state_.facts.reports_late() &&
           (state_.bytes.index().sent().any() || (how == Confirm::kClose && state_.calls.any_final()));
}

Status TargetConfirms::await(Confirm how) {
    state_.mutex.assert_held();
    while (wanted(how)) {
        FOREBAY_TRY(state_.failures.target_lost());
        // An earlier call began before some of these writes.
        FOREBAY_TRY(state_.arrivals.await(state_.mutex, [this]() NO_THREAD_SAFETY_ANALYSIS {
            return !state_.arrivals.sync_in_flight();
        }));
        if (!wanted(how)) break;
        const auto mine = std::make_shared<AwaitedCall>();
        auto work = begin(how, mine);
        {
            const Unlocked meanwhile(state_.mutex);
            if (state_.facts.may_hang()) state_.context.scheduler.carry_out(std::move(work));
            else work->run();
        }
        const Status waited = state_.arrivals.await(state_.mutex, [&mine] { return mine->done; });
        mine->given_up = !waited;
        FOREBAY_TRY(waited);
        FOREBAY_TRY(mine->outcome);
    }
    return state_.failures.error();
}

void TargetConfirms::complete(AwaitedCall& call, const Status& outcome) noexcept {
    if (outcome) state_.context.progress.note();
    {
        const LockGuard lock(state_.mutex);
        if (!outcome) {
            state_.resend_sent(outcome);   // also without a report, as the bytes stay unconfirmed
            state_.halt(outcome);
        }
        state_.answer_sync(call, outcome);
    }
    state_.listener.came_to_rest();
}

}   // namespace forebay::drain
