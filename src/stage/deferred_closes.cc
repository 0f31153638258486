#include "stage/deferred_closes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <system_error>
#include <utility>

#include "area/staging_area.h"
#include "base/attempt.h"
#include "base/background_thread.h"
#include "base/checksum.h"
#include "io/forked_process.h"
#include "io/process_limits.h"
#include "io/process_lock.h"

namespace forebay::stage {

namespace {

// Each close keeps a descriptor and a log segment: the program has that many descriptors fewer.
constexpr std::size_t kClosesMax = 64;
constexpr std::uint64_t kDescriptorShare = 8;

Status waits() { return {Code::kUnavailable, "the close waits"}; }

// A claim has the node in its name: nodes that are played on one machine do not see each other.
std::string claim_name(const Options& options, const io::Identity& identity) {
    return fmt::format("{:x}-{:x}-{:x}", identity.device, identity.inode,
                       checksum(std::as_bytes(std::span(options.node))));
}

std::string claims_folder(const Options& options) {
    return fmt::format("{}/{}/{}", options.nls, area::staging_folder(), area::kClosingFolder);
}

// Another process does not come to the end of its close. Returns ok if it has done so by now.
Status refuse_closing(const std::string& folder, const std::string& name, std::uint64_t patience) {
    const auto claimed = io::Claim::make(folder, name);
    if (claimed || claimed.status().sys_errno() != EBUSY) return claimed.status();
    return {Code::kUnavailable,
            fmt::format("{} has closed the file, and has written nothing to any file for {} seconds: bytes of it are "
                        "still in the staging log. Open it again once that process has ended",
                        claimed.status().message(), patience),
            Leftovers::kUnsettled};
}

}   // namespace

std::optional<WaitedClose> DeferredCloses::why_not_now(const StagedFile& file) {
    const auto limits = [&] {
        const LockGuard lock(mutex_);
        if (!limits_) {
            const std::uint64_t share = io::descriptors_max() / kDescriptorShare;
            limits_ = {io::is_forked(), std::clamp<std::size_t>(share, 1, kClosesMax)};
        }
        return *limits_;
    }();
    // Workers that a program forks often end by _exit (Python's multiprocessing does), which runs no handlers.
    if (limits.forked) return WaitedClose::kForked;
    if (context_.options().close == OnClose::kAuto && file.lifecycle().has_name()) return WaitedClose::kNamed;
    const LockGuard lock(mutex_);
    return under_way_.size() >= limits.under_way_max ? std::optional(WaitedClose::kTooMany) : std::nullopt;
}

std::optional<WaitedClose> DeferredCloses::why_not_deferred(StagedFile& file) {
    if (const auto why = why_not_now(file)) return why;
    if (const auto why = file.lifecycle().commit_to_finish_later()) return why;
    return context_.deadline_presses() ? std::optional(WaitedClose::kDeadline) : std::nullopt;
}

// With close=linger it waits: the drain that takes over uses recovery, after the end of all processes that wrote it.
std::optional<WaitedClose> DeferredCloses::why_waits(const StagedFile& file) {
    if (context_.options().close == OnClose::kWait || context_.options().lingers()) return WaitedClose::kShared;
    if (const auto why = why_not_now(file)) return why;
    if (!start_thread()) return WaitedClose::kUnclaimed;
    return context_.deadline_presses() ? std::optional(WaitedClose::kDeadline) : std::nullopt;
}

void DeferredCloses::count_waited(WaitedClose why) noexcept {
    if (context_.options().close != OnClose::kWait)
        statistics_.counters().waited_closes[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
}

bool DeferredCloses::start_thread() noexcept {
    const LockGuard lock(mutex_);
    if (thread_.joinable()) return true;
    return attempt([&] {
               try {
                   thread_ = start_background_thread([this] { run_thread(); });
               } catch (const std::system_error&) {
                   return waits();
               }
               return Status::ok();
           })
        .is_ok();
}

// Null if the area is not where the options say.
Result<std::unique_ptr<io::Claim>> DeferredCloses::claim(const io::Identity& identity) {
    if (!area_.registers()) return std::unique_ptr<io::Claim>();
    const std::string folder = claims_folder(context_.options());
    {
        const LockGuard lock(mutex_);
        if (!std::exchange(looked_at_claims_, true)) io::Claim::remove_leftovers(folder);
    }
    return io::Claim::make(folder, claim_name(context_.options(), identity));
}

// The closing thread has been started.
void DeferredCloses::hand_over(Close&& close) {
    {
        const LockGuard lock(mutex_);
        under_way_.push_back(std::move(close));
        files_.hand_over(*under_way_.back().file);
    }
    statistics_.counters().deferred_closes.fetch_add(1, std::memory_order_relaxed);
    changed_.notify_all();
}

Status DeferredCloses::defer(const std::shared_ptr<StagedFile>& file, AfterClose afterwards) {
    if (context_.options().close == OnClose::kWait) return waits();
    const auto wait = [&](WaitedClose why) {
        count_waited(why);
        return waits();
    };
    if (const auto why = why_not_deferred(*file)) return wait(*why);
    auto claimed = claim(file->identity());
    if (!claimed || !start_thread()) return wait(WaitedClose::kUnclaimed);
    hand_over({file, std::move(afterwards), std::move(claimed).value(), {}});
    return Status::ok();
}

// The other processes count on it: a close that cannot be handed over ends here.
void DeferredCloses::finish_later(const std::shared_ptr<StagedFile>& file, SharedClose shared) noexcept {
    requests_.await(file.get());
    files_.begin_shared_close(*file);
    Close close{file, std::move(shared.afterwards), nullptr, std::move(shared.finish)};
    const Status handed_over = attempt([&] {
        if (shared.claims) {
            auto claimed = claim(file->identity());
            if (!claimed) return claimed.status();
            close.claim = std::move(claimed).value();
        }
        hand_over(std::move(close));
        return Status::ok();
    });
    if (handed_over) return;
    count_waited(WaitedClose::kUnclaimed);
    const Status outcome = end(close);
    {
        const LockGuard lock(mutex_);
        keep_failure(outcome, *file);
    }
    if (log::SegmentPool* const pool = area_.pool()) pool->announce_change();
}

void DeferredCloses::run_thread() {
    const LockGuard lock(mutex_);
    while (stop_ != Stop::kAtOnce)
        if (!end_next()) {
            if (stop_ != Stop::kNo) return;
            changed_.wait(mutex_);
        }
}

// Returns false if a thread has begun to end each of them. Drops the lock meanwhile.
bool DeferredCloses::end_next() noexcept {
    const auto next = std::find_if(under_way_.begin(), under_way_.end(),
                                   [](const Close& close) { return !close.begun; });
    if (next == under_way_.end()) return false;
    end_under_way(next);
    return true;
}

// Drops the lock meanwhile.
void DeferredCloses::end_under_way(Closes::iterator close, Before before) noexcept {
    close->begun = true;
    Status outcome;
    {
        const Unlocked unlocked(mutex_);
        // As the program's own truncation would: what fails here shows when the file is finished.
        if (before == Before::kDrop && !close->finish) (void)attempt([&] { return close->file->truncate(0); });
        outcome = end(*close);
    }
    keep_failure(outcome, *close->file);
    Closes ended;
    ended.splice(ended.end(), under_way_, close);
    changed_.notify_all();
    const Unlocked unlocked(mutex_);
    if (log::SegmentPool* const pool = area_.pool()) pool->announce_change();
    ended.clear();   // the last owner of a file, perhaps
}

// In this order: a waiting thread or process then finds the file unlocked, and its descriptor closed.
Status DeferredCloses::end(Close& close) noexcept {
    StagedFile& file = *close.file;
    Status outcome = attempt([&] {
        return close.finish ? close.finish() : file.lifecycle().finish(Lifecycle::Finish::kBehindProgram);
    });
    const bool left = (file.lifecycle().failed() || file.lifecycle().leaves_log()) &&
                      !file.lifecycle().left_to_others();
    const bool gone = files_.end_handle(close.file, true);
    const Status ended = attempt([&] { return close.afterwards({left, gone}); });
    if (outcome) outcome = ended;
    file.lifecycle().let_others_open();
    close.claim.reset();
    if (outcome && file.lifecycle().nameless_bytes() > 0) (void)attempt([&] { tell_nameless(file); });
    return outcome;
}

void DeferredCloses::keep_failure(const Status& outcome, const StagedFile& file) noexcept {
    if (outcome || !failure_.is_ok()) return;
    (void)attempt([&]() NO_THREAD_SAFETY_ANALYSIS {
        failure_ = outcome.with_context(file.path() + ": its close did not wait for the drain, which has failed");
    });
}

// A program that removes its last checkpoint wants that; one that moves it has copied too little. Both look alike.
void DeferredCloses::tell_nameless(const StagedFile& file) {
    if (statistics_.counters().nameless.fetch_add(1, std::memory_order_relaxed) > 0) return;
    statistics_.warn(
        fmt::format("{}: it was removed after its close, before {} bytes of it were in the file. If it was moved to "
                    "another file system, the copy lacks them: call `forebay wait` first, or use close=wait",
                    file.path(), file.lifecycle().nameless_bytes()));
}

Status DeferredCloses::take_failure() noexcept {
    const LockGuard lock(mutex_);
    return std::exchange(failure_, Status::ok());
}

bool DeferredCloses::any_under_way() noexcept {
    const LockGuard lock(mutex_);
    return !under_way_.empty();
}

bool DeferredCloses::may_be_under_way(const io::Identity& identity) {
    {
        const LockGuard lock(mutex_);
        if (find(identity) != under_way_.end()) return true;
    }
    if (!area_.registers()) return false;
    const auto held = io::Claim::is_held(claims_folder(context_.options()), claim_name(context_.options(), identity));
    return !held || held.value();
}

DeferredCloses::Closes::iterator DeferredCloses::find(const io::Identity& identity) {
    return std::find_if(under_way_.begin(), under_way_.end(),
                        [&](const Close& close) { return close.file->identity() == identity; });
}

// This thread ends what the closing thread has not come to: another file's target may not answer.
void DeferredCloses::await_own(const io::Identity& identity, Before before) {
    if (context_.inherited()) return;
    const LockGuard lock(mutex_);
    for (auto close = find(identity); close != under_way_.end(); close = find(identity))
        close->begun ? changed_.wait(mutex_) : end_under_way(close, before);
}

// A process at work gives its claim up in the end. This call has the patience that the process has with its targets. A
// process may be stopped, or have more patience than this one.
Status DeferredCloses::await_others(const io::Identity& identity) {
    if (!area_.registers()) return Status::ok();
    const std::string folder = claims_folder(context_.options()), name = claim_name(context_.options(), identity);
    const auto held = io::Claim::is_held(folder, name);
    if (!held || !held.value()) return held.status();
    constexpr std::uint64_t kTurnSeconds = 3600;
    const std::uint64_t patience = context_.options().patience;
    const std::chrono::seconds turn(patience == 0 ? kTurnSeconds : patience);
    const Leftovers::OpenedFile file{identity, "a file that is being closed", true};
    std::uint64_t written = leftovers_.written_by_others(identity);
    while (!io::ProcessLock::await_end(folder, name, turn)) {
        if (patience == 0) {
            FOREBAY_TRY(leftovers_.await_settled(file).status());
            continue;
        }
        FOREBAY_TRY(leftovers_.refuse_unsettled(file));
        const std::uint64_t before = std::exchange(written, leftovers_.written_by_others(identity));
        if (written == before) return refuse_closing(folder, name, patience);
    }
    return Status::ok();
}

Status DeferredCloses::await(const io::Identity& identity, Before before) {
    if (context_.ended()) return Status::ok();
    await_own(identity, before);
    return await_others(identity);
}

bool DeferredCloses::await_one() noexcept {
    const LockGuard lock(mutex_);
    if (under_way_.empty()) return false;
    if (!end_next()) changed_.wait(mutex_);
    return true;
}

Status DeferredCloses::await_all() noexcept {
    return context_.inherited() || context_.ended() ? Status::ok() : end_all();
}

Status DeferredCloses::end_all() noexcept {
    while (await_one()) {
    }
    return take_failure();
}

void DeferredCloses::stop() noexcept {
    {
        const LockGuard lock(mutex_);
        if (stop_ == Stop::kNo) stop_ = Stop::kWhenEmpty;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

// Where the job ends soon the process waits: what it starts would end before it.
bool DeferredCloses::leave(const LeaveTo& leave_to) {
    if (!any_under_way() || context_.deadline_pressed()) return false;
    const Status left = attempt([&] {
        const std::string directory = area_.directory_at_end();
        return directory.empty() ? waits() : leave_to(directory);
    });
    if (!left) return false;
    {
        const LockGuard lock(mutex_);
        stop_ = Stop::kAtOnce;
        statistics_.counters().left_closes = under_way_.size();
    }
    changed_.notify_all();
    return true;
}

}   // namespace forebay::stage
