#include "drain/outflow.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/attempt.h"

namespace forebay::drain {

namespace {

// The time that a flush waits for a target that does not answer. The commit is in the log; the size follows.
constexpr std::chrono::milliseconds kShownWithin{20};

}   // namespace

Outflow::Outflow(const DrainContext& context, index::StagedBytes& bytes, DrainListener& listener,
                 const std::string& path)
    : context_(context),
      listener_(listener),
      path_(path),
      bytes_(bytes),
      target_(listener),
      queue_(bytes, context.options.drain_threads),
      failures_(context.options.on_error == OnError::kRetry),
      arrivals_(context, bytes, path),
      planner_({context.options, listener, bytes, facts_, target_, failures_, queue_}) {}

void Outflow::open(std::shared_ptr<io::File> target, const io::FileTraits& traits, std::uint64_t size,
                   std::uint64_t log_mount) {
    facts_.open(traits, context_.options);
    turns_.open();
    failures_.open();
    arrivals_.open();
    planner_.open();
    target_.open(std::move(target), traits.times, size, log_mount);
}

void Outflow::share(group::RecordOrder& order, std::size_t processes, bool at_once) {
    planner_.share(order, at_once);
    // Each of the processes would have a write in flight.
    queue_.concurrency().drain_for(processes, facts_.waited_for());
    context_.scheduler.allow(processes);
}

// ---- commits ---------------------------------------------------------------------------------------

bool Outflow::committed() noexcept {
    const Backlog backlog = listener_.backlog();
    target_.commit(backlog.logical_size);
    failures_.clear_unreadable();
    tell_pace();
    planner_.hurry();
    if (planner_.paused() && !target_.cut_due()) return false;
    return planner_.urgent() || target_.size() < backlog.committed_size;
}

void Outflow::note_cut() noexcept {
    target_.note_cut();
    tell_pace();
}

void Outflow::tell_pace() noexcept {
    facts_.publish_pace(failures_.halted());
    listener_.pace_changed();
}

// ---- failures --------------------------------------------------------------------------------------

// A background write or change of size has failed.
void Outflow::failed(const Status& failure) {
    resend(failure);
    if (failures_.retry(failure, clock().now_ns())) planner_.drop_planned();
    else halt(failure);
}

void Outflow::halt(const Status& failure) {
    resend(failure);
    failures_.halt();
    planner_.drop_planned();
    tell_pace();
    listener_.halted(failure);
    keep(failure);
}

void Outflow::keep(const Status& failure) {
    if (failures_.keep(failure)) listener_.error_kept(failure.sys_errno());
}

// A target write could not read some bytes of the log. All others go on.
void Outflow::lost(const std::vector<ByteRange>& unreadable, const Status& fault) {
    try {
        failures_.add_unreadable(unreadable);
    } catch (const std::bad_alloc&) {
        return halt(fault);
    }
    listener_.lost();
    keep(fault);
}

// A failed sync may have lost bytes that no later sync restores.
void Outflow::make_good() {
    if (failures_.first_error().is_ok() || !failures_.target_lost().is_ok() || turns_.changed()) return;
    failures_.try_again();
    (void)drain();
    if (failures_.halted() || listener_.backlog().any_ready || !queue_.idle() || target_.cut_due() ||
        !failures_.unreadable().empty() || !failures_.target_lost().is_ok())
        return;
    failures_.forget();
    listener_.made_good();
}

// ---- waiting ---------------------------------------------------------------------------------------

Status Outflow::drain(std::uint64_t below) {
    planner_.demand_all();
    if (listener_.backlog().ready_bytes > 2 * context_.options.write_max) {
        const Unlocked meanwhile(mutex_);
        wake();
    }
    for (;;) {
        if (below != kOffsetMax && planner_.drained_below(below)) break;
        if (Taken taken = take_next(); taken.work) {
            carry_out(std::move(taken));
        } else if (!queue_.idle()) {
            FOREBAY_TRY(arrivals_.await_next(mutex_));
        } else if (pausing()) {
            arrivals_.wait_out_pause(mutex_, failures_);
        } else if (planner_.shared() && !failures_.halted() && planner_.readable_left()) {
            // Other processes still write, or an older record is incomplete. The drain continues after them.
            if (planner_.set_urgent(true)) FOREBAY_TRY(arrivals_.await_next(mutex_));
        } else {
            break;
        }
    }
    planner_.set_urgent(false);
    return failures_.error();
}

// Returns true if a running write will make the file as long as the commit says.
bool Outflow::is_being_lengthened(std::uint64_t committed_size) const noexcept {
    if (queue_.running() == 0 || target_.size() < committed_size) return false;
    return std::ranges::none_of(queue_.planned(),
                                [=](const plan::TargetWrite& write) { return write.range.end >= committed_size; });
}

// H5Fflush sets the size that others see, as natively, even while the bytes are staged. An extension happens at once:
// no write in flight ends beyond a commit's size. A cut waits for the writes in flight beyond it. The commit of a
// shared file drains it, and so sets the size.
Status Outflow::show_size() {
    const auto until = std::chrono::steady_clock::now() + kShownWithin;
    for (;;) {
        const std::uint64_t committed_size = listener_.backlog().committed_size;
        const bool cut_due = target_.cut_due().has_value();
        if (!listener_.drains() || planner_.shared() || failures_.halted() ||
            (!cut_due && target_.shown_size() >= committed_size))
            break;
        Taken taken;
        if (cut_due) taken = take_next();
        else if (!queue_.resizing() && !pausing() && !turns_.closed() && !is_being_lengthened(committed_size))
            taken = take_resize(committed_size);
        if (taken.work) {
            carry_out(std::move(taken));
        } else if (!queue_.idle()) {
            if (!arrivals_.await_briefly(mutex_, until)) break;
        } else if (pausing()) {
            arrivals_.wait_out_pause(mutex_, failures_);
        } else {
            break;
        }
    }
    return failures_.error();
}

}   // namespace forebay::drain
