// The work of drain threads: how it is taken, carried out and ended.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "drain/outflow.h"
#include "drain/target_write.h"

namespace forebay::drain {

namespace {

// Smaller writes, and writes beside others, tell nothing about the target's speed.
constexpr std::uint64_t kTellingWriteMin = 64 * 1024;

Status no_memory_to(const char* doing, const std::string& path) noexcept {
    try {
        return {Code::kUnavailable, doing + (" " + path) + ": out of memory", ENOMEM};
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    }
}

}   // namespace

struct Outflow::Cost {
    std::uint64_t begin_ns = monotonic_ns();
    std::uint64_t end_ns = 0;
    std::uint64_t cpu_ns = thread_cpu_ns();
    std::uint64_t sleeps = thread_sleeps();
    std::optional<std::uint64_t> bypasses;   // none: the program bypassed the log at the begin
    bool alone = true;                       // no other drain write was in flight at the begin

    void stop() noexcept {
        end_ns = monotonic_ns();
        cpu_ns = thread_cpu_ns() - cpu_ns;
        sleeps = thread_sleeps() - sleeps;
    }
};

class Outflow::WriteWork final : public Work {
  public:
    WriteWork(std::shared_ptr<Outflow> outflow, std::shared_ptr<io::File> target, bool alone, Turn turn, bool waits,
              std::optional<std::uint64_t> bypasses)
        : outflow_(std::move(outflow)),
          target_(std::move(target)),
          alone_(alone),
          turn_(turn),
          waits_(waits),
          bypasses_(bypasses) {}
    void set_write(plan::TargetWrite write) noexcept { write_ = std::move(write); }

    void run() noexcept override {
        if (!outflow_->may_begin(turn_)) return outflow_->put_off(*target_, &write_);
        Cost cost;
        cost.bypasses = bypasses_;
        cost.alone = alone_;
        Status outcome;
        Unreadable unreadable;
        try {
            if (turn_ == Turn::kBegins) outcome = outflow_->begin_turn(*target_);
            if (outcome) outcome = write_to_target(*target_, write_, waits_, [this] { return !may_go_on(); });
            if (outcome.sys_errno() == EFAULT) {
                unreadable = find_unreadable(write_);
                if (!unreadable.ranges.empty())
                    outcome = index::ExtentIndex::fault(unreadable.keeper, unreadable.address);
            }
        } catch (const std::bad_alloc&) {
            outcome = no_memory_to("write to", outflow_->path_);
        }
        cost.stop();
        const Status left = outflow_->end_turn(*target_, [&](TargetGuard& guard) {
            if (begun_) guard.wrote(write_.range.end, outcome.is_ok());
        });
        if (outcome) outcome = copy_of(left, Failures::kFailed);
        outflow_->complete(write_, outcome, cost, unreadable.ranges, begun_);
    }

  private:
    // Called before each write call, and notes it in the log.
    bool may_go_on() noexcept {
        if (outflow_->given_up()) return false;
        if (!std::exchange(begun_, true)) {
            outflow_->begin_write(write_);
            return true;
        }
        const LockGuard lock(outflow_->mutex_);
        outflow_->target_.witness().go_on();
        outflow_->target_.note();
        return true;
    }

    bool begun_ = false;
    std::shared_ptr<Outflow> outflow_;
    std::shared_ptr<io::File> target_;
    plan::TargetWrite write_;
    const bool alone_;
    const Turn turn_;
    const bool waits_;
    const std::optional<std::uint64_t> bypasses_;
};

class Outflow::ResizeWork final : public Work {
  public:
    // The target had `from` bytes. `others_extend`: others may write beyond `size`, so an extension must never cut; the
    // byte before `size` is unwritten. `told` belongs to the call that waits for the outcome; null if none does.
    struct Change {
        std::uint64_t from = 0, size = 0;
        bool others_extend = false;
        Turn turn = Turn::kNone;
        [[nodiscard]] bool lengthens() const noexcept { return others_extend && size > from; }
    };
    ResizeWork(std::shared_ptr<Outflow> outflow, std::shared_ptr<io::File> target, Change change,
               std::shared_ptr<AwaitedCall> told)
        : outflow_(std::move(outflow)), target_(std::move(target)), change_(change), told_(std::move(told)) {}
    void run() noexcept override {
        if (told_ == nullptr && !outflow_->may_begin(change_.turn)) return outflow_->put_off(*target_, nullptr);
        Status outcome;
        try {
            if (change_.turn == Turn::kBegins) outcome = outflow_->begin_turn(*target_);
            if (outcome && outflow_->given_up()) outcome = given_up_error();
            if (outcome) outcome = carry_out();
        } catch (const std::bad_alloc&) {
            outcome = no_memory_to("set the size of", outflow_->path_);
        }
        const Status left = outflow_->end_turn(*target_, [&](TargetGuard& guard) {
            if (begun_) guard.resized(change_.size, outcome.is_ok());
        });
        if (outcome) outcome = copy_of(left, Failures::kFailed);
        outflow_->complete_resize(change_.size, change_.lengthens(), outcome, begun_, told_.get());
    }

  private:
    // Never cuts bytes that others have appended.
    Status carry_out() {
        const auto present = target_->size();
        if (!present) return present.status();
        if (change_.size >= change_.from && present.value() >= change_.size) return Status::ok();
        if (change_.size < change_.from && present.value() > change_.from && !change_.others_extend)
            return {Code::kUnsupported,
                    fmt::format("set the size of {} to {} bytes: it has {}, and had {}; another program has appended "
                                "to it",
                                outflow_->path_, change_.size, present.value(), change_.from),
                    log::kChangedByOthers};
        begun_ = true;
        {
            const LockGuard lock(outflow_->mutex_);
            outflow_->target_.begin_resize(change_.size);
        }
        return change_.lengthens() ? target_->write_at(change_.size - 1, std::array<std::byte, 1>{})
                                   : target_->resize(change_.size);
    }

    bool begun_ = false;
    std::shared_ptr<Outflow> outflow_;
    std::shared_ptr<io::File> target_;
    const Change change_;
    const std::shared_ptr<AwaitedCall> told_;
};

// ---- taking ----------------------------------------------------------------------------------------

bool Outflow::given_up() const noexcept {
    const LockGuard lock(mutex_);
    return listener_.given_up();
}

WorkSource::Taken Outflow::take() {
    Taken taken;
    bool nothing_left;
    {
        const LockGuard lock(mutex_);
        taken = take_next();
        nothing_left = !taken.work && queue_.idle();
    }
    if (nothing_left) {
        listener_.came_to_rest();   // writers that wait for log room look again
        watch_rest();
    }
    return taken;
}

WorkSource::Taken Outflow::take_next() {
    if (!listener_.drains() || failures_.halted() || queue_.resizing() || !queue_.has_room() || pausing() ||
        turns_.closed())
        return {};
    listener_.catch_up(true);
    // The cut comes after the planned writes beyond the new end, and before writes planned later.
    const std::optional<std::uint64_t> cut = target_.cut_due();
    if (cut && queue_.planned().empty()) {
        if (queue_.in_flight().overlaps({*cut, kOffsetMax}) || (turns_.on() && turns_.any_taken())) return {};
        return take_resize(*cut);
    }
    if (size_comes_first()) return take_resize(listener_.backlog().committed_size);
    if (queue_.planned().empty()) planner_.plan();
    if (queue_.planned().empty()) {
        // All committed bytes are there except a final hole. Extend the file so that others see it whole.
        const Backlog backlog = listener_.backlog();
        const bool short_of_commit = target_.size() < backlog.committed_size && !backlog.any_ready &&
                                     queue_.none_in_flight();
        return short_of_commit ? take_resize(backlog.committed_size) : Taken{};
    }
    // Only this allocation can fail, so it comes first.
    auto work = std::make_unique<WriteWork>(self(), target_.file(), queue_.running() == 0, turns_.next(),
                                            facts_.waited_for(), listener_.bypasses().none_now());
    work->set_write(queue_.take(clock().now_ns()));
    const bool more = turns_.take() != Turn::kBegins && !queue_.planned().empty() && queue_.has_room();
    return {std::move(work), more};
}

WorkSource::Taken Outflow::take_resize(std::uint64_t size, std::shared_ptr<AwaitedCall> told) {
    // Other processes may bypass the log after the commit. Earlier records were followed, and end below `size`.
    auto work = std::make_unique<ResizeWork>(
        self(), target_.file(), ResizeWork::Change{target_.size(), size, target_.others_write(), turns_.next()},
        std::move(told));
    queue_.set_resizing(true);
    (void)turns_.take();
    return {std::move(work), false};
}

void Outflow::wake() {
    const std::shared_ptr<Outflow> mine = self();
    if (context_.scheduler.wake(mine)) return;
    // Without a thread this one does the work. The ends of its writes call `wake` again.
    thread_local bool draining = false;
    if (draining) return;
    draining = true;
    try {
        while (const Taken taken = take()) taken.work->run();
    } catch (const std::bad_alloc&) {
        // The next write, or the close, wakes the drain again.
    }
    draining = false;
}

// Leaves a target that may hang to a drain thread, since a hung call cannot be cancelled. Otherwise this thread writes,
// which saves a wakeup.
void Outflow::carry_out(Taken taken) {
    const Unlocked meanwhile(mutex_);
    if (facts_.may_hang()) context_.scheduler.carry_out(std::move(taken.work));
    else taken.work->run();
}

// ---- ends ------------------------------------------------------------------------------------------

void Outflow::complete(const plan::TargetWrite& write, const Status& outcome, const Cost& cost,
                       const std::vector<ByteRange>& unreadable, bool begun) {
    if (outcome) {
        listener_.reached(cost.begin_ns, cost.end_ns, write.range);
        context_.progress.note();
    }
    bool more = false, settled = false, confirms = false;
    {
        const LockGuard lock(mutex_);
        queue_.complete(write, clock().now_ns());
        if (begun) target_.end_write(write.range, outcome.is_ok());
        if (outcome) arrivals_.note_progress();
        if (outcome) learn_pace(write, cost);
        listener_.written(write, outcome.is_ok(), cost.end_ns - cost.begin_ns);
        if (!unreadable.empty() && !planner_.shared()) lost(unreadable, outcome);
        else if (!outcome) failed(outcome);
        if (const Backlog left = listener_.backlog(); left.ready_bytes == 0 && !left.any_ready && !target_.cut_due()) {
            planner_.set_urgent(false);
            if (outcome) failures_.note_drained();
        }
        listener_.progressed();
        arrivals_.announce();
        settled = queue_.none_in_flight();
        more = planner_.look_again();
        confirms = confirm_due();
    }
    if (more) wake();
    if (confirms) (void)confirm_soon();
    // A writer may wait for room that this file will not give.
    if (settled) listener_.came_to_rest();
    if (settled && !more) watch_rest();
}

void Outflow::learn_pace(const plan::TargetWrite& write, const Cost& cost) noexcept {
    if (write.range.size() < kTellingWriteMin || !cost.alone || !listener_.bypasses().none_since(cost.bypasses)) return;
    if (facts_.learn(write.range.size(), cost.cpu_ns, cost.end_ns - cost.begin_ns, cost.sleeps > 0))
        queue_.concurrency().start_over();
    tell_pace();
}

void Outflow::complete_resize(std::uint64_t size, bool lengthened, const Status& outcome, bool begun,
                              AwaitedCall* told) {
    if (outcome) context_.progress.note();
    {
        const LockGuard lock(mutex_);
        queue_.set_resizing(false);
        if (begun) target_.end_resize(outcome.is_ok());
        if (outcome) {
            arrivals_.note_progress();
            target_.resized(size, lengthened, listener_.backlog());
            tell_pace();
        } else if (told == nullptr) {
            failed(outcome);
        }
        if (told != nullptr) {
            told->outcome = copy_of(outcome, Failures::kFailed);
            told->done = true;
        }
        listener_.progressed();
        arrivals_.announce();
    }
    if (told == nullptr) wake();   // otherwise the waiting call continues
    listener_.came_to_rest();
}

}   // namespace forebay::drain
