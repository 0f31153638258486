// The work of drain threads: how it is taken, carried out and ended.
#include <fmt/format.h>

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
    void begin(plan::TargetWrite write, const TargetCalls::Call& call) noexcept {
        write_ = std::move(write);
        call_ = call;
    }

    void run() noexcept override {
        if (!outflow_->may_begin(turn_)) return outflow_->put_off(*target_, &write_, call_);
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
                if (!unreadable.ranges.empty()) outcome = index::fault(unreadable.keeper, unreadable.address);
            }
        } catch (const std::bad_alloc&) {
            outcome = no_memory_to("write to", outflow_->state.path);
        }
        cost.stop();
        const Status left = outflow_->end_turn(*target_, [&](TargetGuard& guard) {
            if (begun_) guard.wrote(write_.range.end, outcome.is_ok());
        });
        if (outcome) outcome = copy_of(left, Failures::kFailed);
        outflow_->complete({write_, call_, begun_}, outcome, cost, unreadable.ranges);
    }

  private:
    // Called before each write call, and notes it in the log.
    bool may_go_on() noexcept {
        if (outflow_->given_up()) return false;
        if (!std::exchange(begun_, true)) {
            outflow_->inspector.begin_write(write_);
            return true;
        }
        const LockGuard lock(outflow_->state.mutex);
        outflow_->state.target.witness().go_on();
        outflow_->state.target.note();
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
    TargetCalls::Call call_;
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
    void begin(const TargetCalls::Call& call) noexcept { call_ = call; }
    void run() noexcept override {
        if (told_ == nullptr && !outflow_->may_begin(change_.turn)) return outflow_->put_off(*target_, nullptr, call_);
        Status outcome;
        try {
            if (change_.turn == Turn::kBegins) outcome = outflow_->begin_turn(*target_);
            if (outcome && outflow_->given_up()) outcome = given_up_error();
            if (outcome) outcome = carry_out();
        } catch (const std::bad_alloc&) {
            outcome = no_memory_to("set the size of", outflow_->state.path);
        }
        const Status left = outflow_->end_turn(*target_, [&](TargetGuard& guard) {
            if (begun_) guard.resized(change_.size, outcome.is_ok());
        });
        if (outcome) outcome = copy_of(left, Failures::kFailed);
        outflow_->complete_resize({change_.size, call_, change_.lengthens(), begun_}, outcome, told_.get());
    }

  private:
    // Never cuts bytes that others have appended.
    Status carry_out() {
        const auto present = target_->size();
        if (!present) return present.status();
        if (change_.size >= change_.from && present.value() >= change_.size) return Status::ok();
        if (change_.size < change_.from && present.value() > change_.from && !change_.others_extend)
            return {Code::kUnsupported,
                    fmt::format("set the size of {} to {} bytes: it has {}, and had {}; another program may have "
                                "appended to it",
                                outflow_->state.path, change_.size, present.value(), change_.from),
                    log::kChangedByOthers};
        begun_ = true;
        {
            const LockGuard lock(outflow_->state.mutex);
            outflow_->state.target.begin_resize(change_.size);
        }
        return change_.lengthens() ? target_->write_at(change_.size - 1, std::array<std::byte, 1>{})
                                   : target_->resize(change_.size);
    }

    bool begun_ = false;
    std::shared_ptr<Outflow> outflow_;
    std::shared_ptr<io::File> target_;
    const Change change_;
    TargetCalls::Call call_;
    const std::shared_ptr<AwaitedCall> told_;
};

bool Outflow::given_up() const noexcept {
    const LockGuard lock(state.mutex);
    return state.listener.given_up();
}

WorkSource::Taken Outflow::take() {
    Taken taken;
    bool nothing_left;
    try {
        const LockGuard lock(state.mutex);
        taken = take_next();
        nothing_left = !taken.work && state.queue.idle();
    } catch (const std::bad_alloc&) {
        state.listener.came_to_rest();   // a writer that waits for log room wakes the drain again, after the pause
        throw;
    }
    if (nothing_left) {
        state.listener.came_to_rest();   // writers that wait for log room look again
        inspector.note_rest();
    }
    return taken;
}

WorkSource::Taken Outflow::take_next() {
    try {
        return find_work();
    } catch (const std::bad_alloc&) {
        state.starve();
        throw;
    }
}

WorkSource::Taken Outflow::find_work() {
    if (!state.listener.drains() || state.failures.halted() || state.queue.resizing() || !state.queue.has_room() ||
        state.pausing() || state.turns.closed())
        return {};
    state.listener.catch_up(true);
    // The cut comes after the planned writes beyond the new end, and before writes planned later.
    const std::optional<std::uint64_t> cut = state.target.cut_due();
    if (cut && state.queue.planned().empty()) {
        if (state.queue.in_flight().overlaps({*cut, kOffsetMax}) || (state.turns.on() && state.turns.any_taken()))
            return {};
        return take_resize(*cut);
    }
    if (size_comes_first()) return take_resize(state.listener.backlog().committed_size);
    if (state.queue.planned().empty()) state.planner.plan();
    if (state.queue.planned().empty()) {
        // All committed bytes are there except a final hole. Extend the file so that others see it whole.
        const Backlog backlog = state.listener.backlog();
        const bool short_of_commit = state.target.size() < backlog.committed_size && !backlog.any_ready &&
                                     state.queue.none_in_flight();
        return short_of_commit ? take_resize(backlog.committed_size) : Taken{};
    }
    // Only these allocations can fail, so they come first.
    auto work = std::make_unique<WriteWork>(self(), state.target.file(), state.queue.running() == 0, state.turns.next(),
                                            state.facts.waited_for(), state.listener.bypasses().none_now());
    const TargetCalls::Call call = state.calls.begin(state.facts.writes_are_final());
    work->begin(state.queue.take(state.clock().now_ns()), call);
    const bool more = state.turns.take() != Turn::kBegins && !state.queue.planned().empty() && state.queue.has_room();
    return {std::move(work), more};
}

WorkSource::Taken Outflow::take_resize(std::uint64_t size, std::shared_ptr<AwaitedCall> told) {
    // Other processes may bypass the log after the commit. Earlier records were followed, and end below `size`.
    auto work = std::make_unique<ResizeWork>(self(), state.target.file(),
                                             ResizeWork::Change{state.target.size(), size, state.target.others_write(),
                                                                state.turns.next()},
                                             std::move(told));
    work->begin(state.calls.begin());
    state.queue.set_resizing(true);
    (void)state.turns.take();
    return {std::move(work), false};
}

void Outflow::wake() {
    const std::shared_ptr<Outflow> mine = self();
    if (state.context.scheduler.wake(mine)) return;
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

// Leaves a target that may hang to a drain thread, as a hung call cannot be cancelled. Otherwise it saves a wakeup.
void Outflow::carry_out(Taken taken) {
    const Unlocked meanwhile(state.mutex);
    if (state.facts.may_hang()) state.context.scheduler.carry_out(std::move(taken.work));
    else taken.work->run();
}

void Outflow::complete(const EndedWrite& ended, const Status& outcome, const Cost& cost,
                       const std::vector<ByteRange>& unreadable) {
    const plan::TargetWrite& write = ended.write;
    if (outcome) {
        state.listener.reached(cost.begin_ns, cost.end_ns, write.range);
        state.context.progress.note();
    }
    bool more = false, settled = false, confirm = false;
    {
        const LockGuard lock(state.mutex);
        state.queue.complete(write, state.clock().now_ns());
        if (ended.begun) state.target.end_write(write.range, outcome.is_ok());
        if (outcome) state.arrivals.note_progress();
        if (outcome) learn_pace(write, cost);
        state.calls.note_return(ended.call, outcome.is_ok());
        state.listener.written(write, outcome && !may_be_lost(ended.call), cost.end_ns - cost.begin_ns);
        if (!unreadable.empty() && !state.planner.shared()) state.lose(unreadable, outcome);
        else if (!outcome) state.fail(outcome);
        if (const Backlog left = state.listener.backlog();
            left.ready_bytes == 0 && !left.any_ready && !state.target.cut_due()) {
            state.planner.set_urgent(false);
            if (outcome) state.failures.note_drained();
        }
        state.listener.progressed();
        state.arrivals.announce();
        settled = state.end_call(ended.call) || state.queue.none_in_flight();
        more = state.planner.look_again();
        confirm = confirms.due();
    }
    if (more) wake();
    if (confirm) (void)confirms.ask();
    // A writer may wait for room that this file will not give.
    if (settled) state.listener.came_to_rest();
    if (settled && !more) inspector.note_rest();
}

// Another call got a report that may be about this write. Final bytes (drain/target_calls.h) are never sent again.
bool Outflow::may_be_lost(const TargetCalls::Call& call) const noexcept {
    return !call.final && state.calls.reported_since(call);
}

void Outflow::learn_pace(const plan::TargetWrite& write, const Cost& cost) noexcept {
    if (write.range.size() < kTellingWriteMin || !cost.alone || !state.listener.bypasses().none_since(cost.bypasses))
        return;
    if (state.facts.learn(write.range.size(), cost.cpu_ns, cost.end_ns - cost.begin_ns, cost.sleeps > 0))
        state.queue.concurrency().start_over();
    state.publish_pace();
}

void Outflow::complete_resize(const EndedResize& ended, const Status& outcome, AwaitedCall* told) {
    if (outcome) state.context.progress.note();
    {
        const LockGuard lock(state.mutex);
        state.queue.set_resizing(false);
        if (ended.begun) state.target.end_resize(outcome.is_ok());
        if (outcome) {
            state.arrivals.note_progress();
            state.target.resized(ended.size, ended.lengthened, state.listener.backlog());
            state.publish_pace();
        } else if (told == nullptr) {
            state.fail(outcome);
        }
        if (told != nullptr) {
            told->outcome = copy_of(outcome, Failures::kFailed);
            told->done = true;
        }
        state.listener.progressed();
        state.arrivals.announce();
        (void)state.end_call(ended.call);
    }
    if (told == nullptr) wake();   // otherwise the waiting call continues
    state.listener.came_to_rest();
}

}   // namespace forebay::drain
