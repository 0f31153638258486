// Bytes that a target has taken and may still lose: a write has returned, and a later call reports its failure.
//
// The log keeps them until a sync confirms them. A drain thread syncs when many wait, or when a writer needs room.
#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "drain/outflow.h"

namespace forebay::drain {

namespace {

// So many bytes, or this share of the log, wait for one sync.
constexpr std::uint64_t kSentMax = std::uint64_t{64} << 20;
constexpr std::uint64_t kSentShare = 8;

// Errors that the target's file system has not reported.
bool is_own(const Status& failure) noexcept {
    const int error = failure.sys_errno();
    return error == EFAULT || error == ENOMEM || error == ECANCELED || error == log::kChangedByOthers;
}

}   // namespace

class Outflow::ConfirmWork final : public Work {
  public:
    ConfirmWork(std::shared_ptr<Outflow> outflow, std::shared_ptr<io::File> target, std::shared_ptr<AwaitedCall> call,
                Confirm how)
        : outflow_(std::move(outflow)), target_(std::move(target)), call_(std::move(call)), how_(how) {}
    void run() noexcept override {
        outflow_->complete_confirm(*call_, how_ == Confirm::kSync ? target_->sync() : target_->flush());
    }

  private:
    const std::shared_ptr<Outflow> outflow_;
    const std::shared_ptr<io::File> target_;
    const std::shared_ptr<AwaitedCall> call_;
    const Confirm how_;
};

std::unique_ptr<Work> Outflow::begin_confirm(Confirm how, std::shared_ptr<AwaitedCall> call) {
    auto work = std::make_unique<ConfirmWork>(self(), target_.file(), call, how);
    call->confirms = bytes_.index().begin_confirm();
    arrivals_.begin_sync(std::move(call));
    return work;
}

bool Outflow::confirm_due() const noexcept {
    return facts_.reports_late() && !failures_.halted() && (!arrivals_.sync() || arrivals_.sync()->done) &&
           bytes_.index().sent_bytes() >= std::min(kSentMax, context_.options.size / kSentShare);
}

bool Outflow::confirm_soon() {
    std::unique_ptr<Work> work;
    {
        const LockGuard lock(mutex_);
        if (!facts_.reports_late() || !bytes_.index().any_sent()) return false;
        if (arrivals_.sync() && !arrivals_.sync()->done) return true;
        try {
            work = begin_confirm(Confirm::kSync, std::make_shared<AwaitedCall>());
        } catch (const std::bad_alloc&) {
            return false;   // the next write, or the close, asks again
        }
    }
    context_.scheduler.carry_out(std::move(work));
    return true;
}

Status Outflow::confirm(Confirm how) {
    while (facts_.reports_late() && bytes_.index().any_sent()) {
        FOREBAY_TRY(failures_.target_lost());
        // An earlier call began before some of these writes.
        FOREBAY_TRY(arrivals_.await(mutex_, [this]() NO_THREAD_SAFETY_ANALYSIS {
            return !arrivals_.sync() || arrivals_.sync()->done;
        }));
        if (!bytes_.index().any_sent()) break;
        const auto mine = std::make_shared<AwaitedCall>();
        auto work = begin_confirm(how, mine);
        {
            const Unlocked meanwhile(mutex_);
            if (facts_.may_hang()) context_.scheduler.carry_out(std::move(work));
            else work->run();
        }
        const Status waited = arrivals_.await(mutex_, [&mine] { return mine->done; });
        mine->given_up = !waited;
        FOREBAY_TRY(waited);
        FOREBAY_TRY(mine->outcome);
    }
    return failures_.error();
}

void Outflow::complete_confirm(AwaitedCall& call, const Status& outcome) noexcept {
    if (outcome) context_.progress.note();
    {
        const LockGuard lock(mutex_);
        if (call.confirms) bytes_.index().end_confirm(outcome.is_ok());
        if (outcome) {
            arrivals_.note_progress();
        } else {
            // Bytes that bypassed a durable log are in no other place.
            if (context_.options.durability == Durability::kNode) failures_.lose_target(outcome, path_);
            halt(outcome);
        }
        call.outcome = copy_of(outcome, Failures::kFailed);
        call.done = true;
        listener_.progressed();
        arrivals_.announce();
    }
    listener_.came_to_rest();
}

void Outflow::resend(const Status& failure) {
    if (!facts_.reports_late() || !bytes_.index().any_sent() || is_own(failure)) return;
    try {
        bytes_.index().resend();
    } catch (const std::bad_alloc&) {
        failures_.lose_target(failure, path_);   // the log keeps them for recovery
    }
}

}   // namespace forebay::drain
