#include "drain/outflow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <new>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "drain/target_write.h"

namespace forebay::drain {

namespace {

// Only writes of at least this size, carried out alone, tell how the target behaves.
constexpr std::uint64_t kTellingWriteMin = 64 * 1024;

// on_error=retry: so many attempts more, after pauses that double. Together less than a second.
constexpr unsigned kAttemptsMax = 5;
constexpr std::uint64_t kPauseNs = 20'000'000;
// A flush waits no longer for a target that does not answer: what it commits is in the log, and the size follows.
constexpr std::chrono::milliseconds kShownWithin{20};

bool may_pass(int sys_errno) noexcept {
    switch (sys_errno) {
        case EIO:
        case ENOSPC:
        case EDQUOT:
        case ESTALE:
        case EINTR:
        case EAGAIN: return true;
        default: return false;
    }
}

Status no_memory_to(const char* doing, const std::string& path) noexcept {
    try {
        return {Code::kUnavailable, doing + (" " + path) + ": out of memory", ENOMEM};
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    }
}

Status given_up_meanwhile() { return {Code::kUnavailable, "given up", ECANCELED}; }

}   // namespace

// What one target write took.
struct Outflow::Cost {
    std::uint64_t begin_ns = monotonic_ns();
    std::uint64_t end_ns = 0;
    std::uint64_t cpu_ns = thread_cpu_ns();
    std::uint64_t sleeps = thread_sleeps();
    std::optional<std::uint64_t> bypasses;   // nothing: the program was writing past the log when it began
    bool alone = true;                       // no other write of the drain was under way then

    void stop() noexcept {
        end_ns = monotonic_ns();
        cpu_ns = thread_cpu_ns() - cpu_ns;
        sleeps = thread_sleeps() - sleeps;
    }
};

class Outflow::WriteWork final : public Work {
  public:
    // `waits`: the target is known to be waited for.
    WriteWork(std::shared_ptr<Outflow> outflow, std::shared_ptr<io::File> target, plan::TargetWrite write, bool alone,
              Turn turn, bool waits, std::optional<std::uint64_t> bypasses)
        : outflow_(std::move(outflow)),
          target_(std::move(target)),
          write_(std::move(write)),
          alone_(alone),
          turn_(turn),
          waits_(waits),
          bypasses_(bypasses) {}

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
        if (outcome) outcome = copy_of(left, kFailed);
        outflow_->complete(write_, outcome, cost, unreadable.ranges, begun_);
    }

  private:
    // Asked before each call that writes: the log tells of it then.
    bool may_go_on() noexcept {
        if (outflow_->given_up()) return false;
        if (std::exchange(begun_, true)) outflow_->go_on_with_write();
        else outflow_->begin_write(write_);
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
    // The target had `from` bytes. `others_extend`: others may be writing beyond `size` meanwhile, so it is never cut
    // if it is to be longer. The byte before `size` is known not to be written yet. `told`: who waits for the outcome.
    struct Change {
        std::uint64_t from = 0, size = 0;
        bool others_extend = false;
        Turn turn = Turn::kNone;
        [[nodiscard]] bool lengthens() const noexcept { return others_extend && size > from; }
    };
    ResizeWork(std::shared_ptr<Outflow> outflow, std::shared_ptr<io::File> target, Change change,
               std::shared_ptr<Syncing> told)
        : outflow_(std::move(outflow)), target_(std::move(target)), change_(change), told_(std::move(told)) {}
    void run() noexcept override {
        if (told_ == nullptr && !outflow_->may_begin(change_.turn)) return outflow_->put_off(*target_, nullptr);
        Status outcome;
        try {
            if (change_.turn == Turn::kBegins) outcome = outflow_->begin_turn(*target_);
            if (outcome && outflow_->given_up()) outcome = given_up_meanwhile();
            if (outcome) outcome = carry_out();
        } catch (const std::bad_alloc&) {
            outcome = no_memory_to("set the size of", outflow_->path_);
        }
        const Status left = outflow_->end_turn(*target_, [&](TargetGuard& guard) {
            if (begun_) guard.resized(change_.size, outcome.is_ok());
        });
        if (outcome) outcome = copy_of(left, kFailed);
        outflow_->complete_resize(change_.size, change_.lengthens(), outcome, begun_, told_.get());
    }

  private:
    // What others have appended meanwhile is not cut off.
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
        outflow_->begin_resize(change_.size);
        return change_.lengthens() ? target_->write_at(change_.size - 1, std::array<std::byte, 1>{})
                                   : target_->resize(change_.size);
    }

    bool begun_ = false;
    std::shared_ptr<Outflow> outflow_;
    std::shared_ptr<io::File> target_;
    const Change change_;
    const std::shared_ptr<Syncing> told_;
};

Outflow::Outflow(const Process& process, index::StagedBytes& bytes, DrainListener& listener, const std::string& path)
    : process_(process), listener_(listener), path_(path), bytes_(bytes), concurrency_(process.options.drain_threads) {}

// ---- taking ----------------------------------------------------------------------------------------

bool Outflow::given_up() const noexcept {
    const LockGuard lock(mutex_);
    return listener_.given_up();
}

Source::Taken Outflow::take() {
    Taken taken;
    bool nothing_left;
    {
        const LockGuard lock(mutex_);
        taken = take_next();
        nothing_left = !taken.work && idle();
    }
    if (nothing_left) {
        listener_.came_to_rest();   // writers that wait for room in the log must look again
        watch_rest();
    }
    return taken;
}

Source::Taken Outflow::take_next() {
    if (!listener_.drains() || halted_ || resizing_ || running_ >= concurrency_.allowed() || pausing() ||
        turn_is_taken())
        return {};
    listener_.catch_up(true);
    // Writes beyond the new end that are planned already come before the cut; whatever is planned later
    // comes after it.
    if (cut_due_ && planned_.empty()) {
        if (in_flight_.overlaps({*cut_due_, kOffsetMax}) || (guard_.on() && acting_ > 0)) return {};
        return take_resize(*cut_due_);
    }
    if (size_comes_first()) return take_resize(listener_.backlog().committed_size);
    if (planned_.empty()) plan();
    if (planned_.empty()) {
        // Everything committed is there but for space that nobody has written: others see the file whole.
        const Backlog backlog = listener_.backlog();
        const bool short_of_commit = target_size_ < backlog.committed_size && !backlog.any_ready && in_flight_.empty();
        return short_of_commit ? take_resize(backlog.committed_size) : Taken{};
    }
    // The one thing that may fail comes first.
    auto work = std::make_unique<WriteWork>(self(), target_, std::move(planned_.front()), running_ == 0, next_turn(),
                                            waits_for_target(), listener_.bypasses().none_now());
    planned_.pop_front();
    const Turn turn = take_turn();
    if (running_++ == 0) busy_since_ns_ = clock().now_ns();
    return {std::move(work), !planned_.empty() && running_ < concurrency_.allowed() && turn != Turn::kBegins};
}

Source::Taken Outflow::take_resize(std::uint64_t size, std::shared_ptr<Syncing> told) {
    // Others may be writing past the log what comes after the commit. What came before it has been followed, and is
    // shorter.
    const bool others_write = others_extend_ || witness_.state().others_write;
    auto work = std::make_unique<ResizeWork>(self(), target_,
                                             ResizeWork::Change{target_size_, size, others_write, next_turn()},
                                             std::move(told));
    resizing_ = true;
    (void)take_turn();
    return {std::move(work), false};
}

void Outflow::wake() {
    const std::shared_ptr<Outflow> mine = self();
    if (process_.scheduler.wake(mine)) return;
    // Not even one thread could be had: this one does the work. Its completions come here again.
    thread_local bool draining = false;
    if (draining) return;
    draining = true;
    try {
        while (const Taken taken = take()) taken.work->run();
    } catch (const std::bad_alloc&) {
        // As with a thread: what was not taken is woken again with the next write, at the latest at close.
    }
    draining = false;
}

// To a target that may hang this thread writes nothing itself: nobody could call it back from a write that does not
// return. To others it does, which saves waking a thread.
void Outflow::carry_out(Taken taken) {
    const Unlocked meanwhile(mutex_);
    if (may_hang()) process_.scheduler.carry_out(std::move(taken.work));
    else taken.work->run();
}

bool Outflow::waits_for_target() const noexcept {
    return !target_pace_.of_memory() && (target_pace_.known() || may_hang());
}

// ---- ends ------------------------------------------------------------------------------------------

void Outflow::complete(const plan::TargetWrite& write, const Status& outcome, const Cost& cost,
                       const std::vector<ByteRange>& unreadable, bool begun) {
    if (outcome) {
        listener_.reached(cost.begin_ns, cost.end_ns, write.range);
        process_.progress.note();
    }
    bool more = false, settled = false;
    {
        const LockGuard lock(mutex_);
        release(write);
        if (begun) end_write(write.range, outcome.is_ok());
        if (begun && !outcome) size_in_doubt_ = true;
        --running_;
        const std::uint64_t now = clock().now_ns();
        if (outcome) progress_ns_ = now;
        if (outcome) shown_size_ = std::max(shown_size_, write.range.end);
        concurrency_.completed(write.range.size(), now - std::exchange(busy_since_ns_, now));
        if (outcome) learn_pace(write, cost);
        listener_.written(write, outcome.is_ok(), cost.end_ns - cost.begin_ns);
        if (!unreadable.empty() && !shared_) lost(unreadable, outcome);
        else if (!outcome) failed(outcome);
        if (const Backlog left = listener_.backlog(); left.ready_bytes == 0 && !left.any_ready && !cut_due_) {
            urgent_ = false;
            if (outcome) attempts_ = 0;
        }
        listener_.progressed();
        announce();
        settled = in_flight_.empty();
        more = look_again();
    }
    if (more) wake();
    // Somebody may be waiting for room that this file will not give.
    if (settled) listener_.came_to_rest();
    if (settled && !more) watch_rest();
}

void Outflow::learn_pace(const plan::TargetWrite& write, const Cost& cost) noexcept {
    if (write.range.size() < kTellingWriteMin || !cost.alone || !listener_.bypasses().none_since(cost.bypasses)) return;
    const bool waited = waits_for_target();
    target_pace_.wrote(write.range.size(), cost.cpu_ns, cost.end_ns - cost.begin_ns, cost.sleeps > 0);
    if (waited && !waits_for_target()) concurrency_.start_over();
    tell_pace();
}

// Everything has to be staged where the target has failed.
void Outflow::tell_pace() noexcept {
    was_cut_ = was_cut_ || cut_due_.has_value();
    pace_ns_ = halted_ ? 0 : target_pace_.of_memory().value_or(0);
    listener_.pace_changed();
}

void Outflow::forget_pace() noexcept {
    target_pace_ = {};
    pace_ns_ = 0;
}

void Outflow::note_cut() noexcept {
    was_cut_ = true;
    tell_pace();
}

void Outflow::complete_resize(std::uint64_t size, bool lengthened, const Status& outcome, bool begun, Syncing* told) {
    if (outcome) process_.progress.note();
    {
        const LockGuard lock(mutex_);
        resizing_ = false;
        if (begun) end_resize(outcome.is_ok());
        if (begun && !outcome) size_in_doubt_ = true;
        if (outcome) {
            if (!lengthened) size_in_doubt_ = false;
            progress_ns_ = clock().now_ns();
            target_size_ = lengthened ? std::max(target_size_, size) : size;
            shown_size_ = lengthened ? std::max(shown_size_, size) : size;
            if (cut_due_ == target_size_) cut_due_.reset();
            // A commit to less came while the file was being extended.
            const Backlog backlog = listener_.backlog();
            if (!cut_due_ && target_size_ > backlog.committed_size && target_size_ > backlog.logical_size)
                cut_due_ = std::max(backlog.committed_size, backlog.logical_size);
            tell_pace();
        } else if (told == nullptr) {
            failed(outcome);
        }
        if (told != nullptr) {
            told->outcome = copy_of(outcome, kFailed);
            told->done = true;
        }
        listener_.progressed();
        announce();
    }
    if (told == nullptr) wake();   // else who waits for it goes on
    listener_.came_to_rest();
}

bool Outflow::committed() noexcept {
    const Backlog backlog = listener_.backlog();
    // A cut that is still to come must not be forgotten for a later, longer one.
    if (target_size_ > backlog.logical_size) cut_due_ = std::min(cut_due_.value_or(kOffsetMax), backlog.logical_size);
    unreadable_.clear();
    tell_pace();
    hurry();
    if (paused_ && !cut_due_) return false;
    return urgent_ || target_size_ < backlog.committed_size;
}

void Outflow::hurry() noexcept { urgent_ = listener_.backlog().any_ready || cut_due_.has_value(); }

Outflow::Pressed Outflow::press() {
    retry_at_ns_ = 0;   // whoever is in want of room cannot wait for this file
    paused_ = false;
    bool anything = !halted_ && (listener_.backlog().any_ready || cut_due_.has_value());
    if (anything) urgent_ = true;
    if (anything && !unreadable_.empty() && !cut_due_) {   // what cannot be read will not drain
        if (planned_.empty()) plan();
        anything = !planned_.empty();
    }
    return {anything, anything || !idle()};
}

// ---- failures --------------------------------------------------------------------------------------

// A write or a change of size in the background has failed.
void Outflow::failed(const Status& failure) {
    const bool again = process_.options.on_error == OnError::kRetry && !halted_ && may_pass(failure.sys_errno());
    if (!again || attempts_ == kAttemptsMax) return halt(failure);
    retry_at_ns_ = clock().now_ns() + (kPauseNs << attempts_++);
    drop_planned();
}

void Outflow::halt(const Status& failure) {
    halted_ = true;
    retry_at_ns_ = 0;
    drop_planned();
    tell_pace();
    listener_.halted(failure);
    keep(failure);
}

void Outflow::keep(const Status& failure) {
    if (!error_.is_ok()) return;
    error_ = copy_of(failure, kFailed);
    listener_.error_kept(failure.sys_errno());
}

// Bytes that a target write needed cannot be read. All others go on.
void Outflow::lost(const std::vector<ByteRange>& unreadable, const Status& fault) {
    try {
        for (const ByteRange& range : unreadable) unreadable_.add(range);
    } catch (const std::bad_alloc&) {
        return halt(fault);
    }
    listener_.lost();
    keep(fault);
}

Status Outflow::error() const {
    return error_.is_ok() ? Status::ok() : error_.with_context("an earlier background write failed");
}

void Outflow::try_again() noexcept {
    halted_ = false;
    unreadable_.clear();
    retry_at_ns_ = 0;
}

// A sync that has failed may have lost what no later one makes good.
void Outflow::make_good() {
    if (error_.is_ok() || !target_lost_.is_ok() || guard_.changed()) return;
    try_again();
    (void)drain();
    const Backlog left = listener_.backlog();
    if (halted_ || left.any_ready || !idle() || cut_due_ || !unreadable_.empty() || !target_lost_.is_ok()) return;
    error_ = Status::ok();
    listener_.made_good();
}

bool Outflow::pausing() noexcept {
    if (retry_at_ns_ != 0 && clock().now_ns() >= retry_at_ns_) retry_at_ns_ = 0;
    return retry_at_ns_ != 0;
}

// Whoever needs the target may wait; drain threads never do, they are those of all files.
void Outflow::wait_out_pause() {
    while (pausing()) (void)ended_.wait_until(mutex_, clock().wake_at(retry_at_ns_));
}

// ---- waiting ---------------------------------------------------------------------------------------

void Outflow::announce() noexcept {
    ++ends_;
    ended_.notify_all();
}

Status Outflow::await(const std::function<bool()>& over) {
    if (over()) return Status::ok();
    Wait wait(process_);
    while (!over()) {
        if (wait.until() == Wait::TimePoint::max()) ended_.wait(mutex_);
        else (void)ended_.wait_until(mutex_, wait.until());
        if (over()) break;
        const std::uint64_t progress_ns = progress_ns_;
        bool given_up;
        {
            const Unlocked meanwhile(mutex_);
            given_up = wait.over(progress_ns);
        }
        if (given_up && !over()) return timed_out();
    }
    return Status::ok();
}

Status Outflow::await_next() {
    return await([this, seen = ends_]() NO_THREAD_SAFETY_ANALYSIS { return ends_ != seen; });
}

Status Outflow::timed_out() const {
    return {Code::kUnavailable,
            fmt::format(
                "nothing has reached {} for {} seconds; {} bytes of it are in the staging log, and `forebay recover` "
                "brings them home if this process cannot",
                path_, process_.options.patience, bytes_.pending_bytes()),
            ETIMEDOUT, true};
}

bool Outflow::stalled() const noexcept {
    const std::uint64_t patience = patience_ns(process_.options);
    return patience != 0 && running_ > 0 && clock().now_ns() >= std::max(busy_since_ns_, progress_ns_) + patience;
}

// Whether anything is ready but what could not be read back: that will not drain.
bool Outflow::readable_left() const {
    if (unreadable_.empty()) return listener_.backlog().any_ready;
    bool any = false;
    walk_ready(0, [&](const plan::Piece& piece) NO_THREAD_SAFETY_ANALYSIS {
        unreadable_.for_each_gap(piece.range, [&](ByteRange) { any = true; });
        return !any;
    });
    return any;
}

bool Outflow::drained_below(std::uint64_t below) const {
    bool any = false;
    walk_ready(0, [&](const plan::Piece& piece) { return !(any = piece.sequence < below); });
    return !any;
}

Status Outflow::drain(std::uint64_t below) {
    urgent_ = true;
    paused_ = false;
    if (listener_.backlog().ready_bytes > 2 * process_.options.write_max) {
        const Unlocked meanwhile(mutex_);
        wake();
    }
    for (;;) {
        if (below != kOffsetMax && drained_below(below)) break;
        if (Taken taken = take_next(); taken.work) {
            carry_out(std::move(taken));
        } else if (!idle()) {
            FOREBAY_TRY(await_next());
        } else if (pausing()) {
            wait_out_pause();
        } else if (shared_ && !halted_ && readable_left()) {
            // Others went on writing, or have not finished a record that is older; they are looked at once they have.
            if (std::exchange(urgent_, true)) FOREBAY_TRY(await_next());
        } else {
            break;
        }
    }
    urgent_ = false;
    return error();
}

// A write that is being carried out makes the file as long as the commit says.
bool Outflow::is_being_lengthened(std::uint64_t committed_size) const noexcept {
    if (running_ == 0 || target_size_ < committed_size) return false;
    return std::none_of(planned_.begin(), planned_.end(),
                        [=](const plan::TargetWrite& write) { return write.range.end >= committed_size; });
}

// The size that others see of a file after a flush: H5Fflush sets it, as natively, also while what the file consists of
// is still staged. A file that is to be longer is made so at once: no write in flight ends beyond a commit's size. One
// that is to be cut waits for what is in flight beyond the cut. A file that is shared is drained by its commit, which
// sets the size too.
Status Outflow::show_size() {
    const auto until = std::chrono::steady_clock::now() + kShownWithin;
    for (;;) {
        const std::uint64_t committed_size = listener_.backlog().committed_size;
        if (!listener_.drains() || shared_ || halted_ || (!cut_due_ && shown_size_ >= committed_size)) break;
        Taken taken;
        if (cut_due_) taken = take_next();
        else if (!resizing_ && !pausing() && !turn_is_taken() && !is_being_lengthened(committed_size))
            taken = take_resize(committed_size);
        if (taken.work) {
            carry_out(std::move(taken));
        } else if (!idle()) {
            // Nothing has arrived since an earlier flush waited in vain.
            if (ends_ == size_late_at_) break;
            bool in_time = true;
            for (const std::uint64_t seen = ends_; ends_ == seen && in_time;)
                in_time = ended_.wait_until(mutex_, until) || ends_ != seen;
            if (in_time) continue;
            size_late_at_ = ends_;
            break;
        } else if (pausing()) {
            wait_out_pause();
        } else {
            break;
        }
    }
    return error();
}

}   // namespace forebay::drain
