// Closes that the program does not wait for (docs/consistency.md, "Deferred close").
#include <fmt/format.h>

#include <chrono>
#include <span>
#include <system_error>

#include "area/staging_area.h"
#include "base/attempt.h"
#include "base/background_thread.h"
#include "base/checksum.h"
#include "io/forked_process.h"
#include "io/process_limits.h"
#include "io/process_lock.h"
#include "stage/engine_state.h"

namespace forebay::stage {

namespace {

// Each keeps a descriptor, and a segment of the log. A program finds as many fewer than without forebay.
constexpr std::size_t kClosesMax = 64;
constexpr std::uint64_t kDescriptorShare = 8;

constexpr std::array<std::string_view, static_cast<std::size_t>(WaitedClose::kCount)> kWaitedNames{
    "nothing_left", "failing", "unrecorded", "shared", "too_many", "named", "unclaimed", "deadline", "forked",
};

Status waits() { return {Code::kUnavailable, "the close waits"}; }

}   // namespace

// ---- deferring -----------------------------------------------------------------------------------------

// Workers that a program forks often end by _exit (Python's multiprocessing does), which runs no handlers.
bool Engine::State::is_forked() noexcept {
    const std::lock_guard lock(mutex_);
    if (!forked_) forked_ = io::is_forked();
    return *forked_;
}

bool Engine::State::too_many_closes() noexcept {
    const std::lock_guard lock(mutex_);
    if (closes_max_ == 0)
        closes_max_ = std::clamp<std::size_t>(io::descriptors_max() / kDescriptorShare, 1, kClosesMax);
    return closes_under_way_.size() >= closes_max_;
}

std::optional<WaitedClose> Engine::State::why_not_deferred(StagedFile& file) {
    if (is_forked()) return WaitedClose::kForked;
    if (loaded_.options.close == OnClose::kAuto && file.has_name()) return WaitedClose::kNamed;
    if (too_many_closes()) return WaitedClose::kTooMany;
    const std::optional<WaitedClose> waits = file.commit_to_finish_later();
    return !waits && deadline_presses() ? std::optional(WaitedClose::kDeadline) : waits;
}

// For a file that several processes write. With close=linger its close waits: the process that takes over the drain
// uses recovery, and recovery requires that all of them have ended.
std::optional<WaitedClose> Engine::State::why_close_waits(const StagedFile& file) {
    if (loaded_.options.close == OnClose::kWait || loaded_.options.lingers()) return WaitedClose::kShared;
    if (is_forked()) return WaitedClose::kForked;
    if (loaded_.options.close == OnClose::kAuto && file.has_name()) return WaitedClose::kNamed;
    if (too_many_closes()) return WaitedClose::kTooMany;
    if (!closing_thread()) return WaitedClose::kUnclaimed;
    return deadline_presses() ? std::optional(WaitedClose::kDeadline) : std::nullopt;
}

// False: no thread can be had.
bool Engine::State::closing_thread() noexcept {
    const std::lock_guard lock(mutex_);
    if (closing_thread_.joinable()) return true;
    return attempt([&] {
               try {
                   closing_thread_ = start_background_thread([this] { run_closing_thread(); });
               } catch (const std::system_error&) {
                   return waits();
               }
               return Status::ok();
           })
        .is_ok();
}

// To the closing thread, which is there.
void Engine::State::hand_over(Deferred&& close) {
    const std::lock_guard lock(mutex_);
    files_.at(close.file->identity()).closed_by = {};
    const auto under_way = closes_under_way_.insert(close.file->identity());
    try {
        closes_waiting_.push_back(std::move(close));
    } catch (const std::bad_alloc&) {
        closes_under_way_.erase(under_way);
        throw;
    }
    deferred_closes_.fetch_add(1, std::memory_order_relaxed);
    close_wanted_.notify_one();
    closed_.notify_all();   // for the end of the process: it is not the program's thread that closes it any more
}

// Ok: the close is deferred. An error: the caller finishes the file.
Status Engine::State::defer(const std::shared_ptr<StagedFile>& file, AfterClose afterwards) {
    if (loaded_.options.close == OnClose::kWait) return waits();
    const auto wait = [&](WaitedClose why) {
        count_waited_close(why);
        return waits();
    };
    if (const auto why = why_not_deferred(*file)) return wait(*why);
    Deferred close{file, std::move(afterwards), nullptr, {}};
    if (!claim_closing(file->identity(), close.claim)) return wait(WaitedClose::kUnclaimed);
    if (!closing_thread()) return wait(WaitedClose::kUnclaimed);
    hand_over(std::move(close));
    return Status::ok();
}

// The others count on it: what cannot be handed over is done here.
void Engine::State::finish_later(const std::shared_ptr<StagedFile>& file, SharedClose shared) noexcept {
    async_requests_.await(file.get());
    {
        const std::lock_guard lock(mutex_);
        Entry& entry = files_.at(file->identity());
        --entry.writers;
        entry.closing = true;
    }
    Deferred close{file, std::move(shared.afterwards), nullptr, std::move(shared.finish)};
    const Status handed_over = attempt([&] {
        if (shared.claims) FOREBAY_TRY(claim_closing(file->identity(), close.claim));
        hand_over(std::move(close));
        return Status::ok();
    });
    if (handed_over) return;
    count_waited_close(WaitedClose::kUnclaimed);
    end_deferred(std::move(close));
}

// The name has the node in it, as that of other claims: nodes that are played on one machine do not see each other.
std::string Engine::State::closing_name(const io::Identity& identity) const {
    return fmt::format("{:x}-{:x}-{:x}", identity.device, identity.inode,
                       checksum(std::as_bytes(std::span(loaded_.options.node))));
}

std::string Engine::State::closing_folder() const {
    return fmt::format("{}/{}/{}", loaded_.options.nls, area::staging_folder(), area::kClosingFolder);
}

Status Engine::State::claim_closing(const io::Identity& identity, std::unique_ptr<io::Claim>& claim) {
    if (!registers_) return Status::ok();
    const std::string folder = closing_folder();
    {
        const std::lock_guard lock(mutex_);
        if (!std::exchange(closing_looked_at_, true)) io::Claim::remove_leftovers(folder);
    }
    auto claimed = io::Claim::make(folder, closing_name(identity));
    if (claimed) claim = std::move(claimed).value();
    return claimed.status();
}

// ---- ending --------------------------------------------------------------------------------------------

void Engine::State::run_closing_thread() {
    std::unique_lock lock(mutex_);
    for (;;) {
        close_wanted_.wait(lock, [&] { return closing_stops_ || !closes_waiting_.empty(); });
        if (closes_left_ || closes_waiting_.empty()) return;
        Deferred close = std::move(closes_waiting_.front());
        closes_waiting_.pop_front();
        lock.unlock();
        end_deferred(std::move(close));
        lock.lock();
    }
}

// In this order: a thread of this process, or another process, that waits to open the file finds it unlocked and its
// descriptor closed.
void Engine::State::end_deferred(Deferred close) noexcept {
    StagedFile& file = *close.file;
    const io::Identity identity = file.identity();
    Status outcome = attempt([&] {
        return close.finish ? close.finish() : file.finish(StagedFile::Finish::kBehindProgram);
    });
    const bool left = (file.failed() || file.leaves_log()) && !file.left_to_others();
    const bool gone = end_handle(close.file, true);
    const Status ended = attempt([&] { return close.afterwards({left, gone}); });
    if (outcome) outcome = ended;
    file.let_others_open();
    close.claim.reset();
    if (outcome && file.nameless_bytes() > 0) (void)attempt([&] { tell_nameless(file); });
    {
        const std::lock_guard lock(mutex_);
        if (const auto under_way = closes_under_way_.find(identity); under_way != closes_under_way_.end())
            closes_under_way_.erase(under_way);   // one that was not handed over is not there
        if (!outcome && deferred_failure_.is_ok())
            (void)attempt([&] {
                deferred_failure_ = outcome.with_context(file.path() + ": its close did not wait for the drain, which "
                                                                       "has failed");
            });
    }
    closed_.notify_all();
    if (pool_) pool_->announce_change();
}

// A program that removes its last checkpoint means that. One that moves a file to another file system has copied less
// than it believes: nothing tells the one from the other.
void Engine::State::tell_nameless(const StagedFile& file) {
    if (nameless_.fetch_add(1, std::memory_order_relaxed) > 0) return;
    Warn warn;
    {
        const std::lock_guard lock(mutex_);
        warn = warn_;
    }
    if (warn)
        warn(fmt::format(
            "{}: it was removed after its close, before {} bytes of it were in the file; if it was moved to "
            "another file system, the copy lacks them: call `forebay wait` before that, or use close=wait",
            file.path(), file.nameless_bytes()));
}

Status Engine::State::take_deferred_failure() noexcept {
    const std::lock_guard lock(mutex_);
    return std::exchange(deferred_failure_, Status::ok());
}

// ---- waiting -------------------------------------------------------------------------------------------

// What the closing thread has not come to is done by this one: another file's target may not answer.
void Engine::State::await_own_closed(const io::Identity& identity, Before before) {
    if (inherited()) return;
    std::unique_lock lock(mutex_);
    while (closes_under_way_.contains(identity)) {
        const auto waiting = std::find_if(closes_waiting_.begin(), closes_waiting_.end(),
                                          [&](const Deferred& close) { return close.file->identity() == identity; });
        if (waiting == closes_waiting_.end()) {
            closed_.wait(lock);
            continue;
        }
        Deferred close = std::move(*waiting);
        closes_waiting_.erase(waiting);
        lock.unlock();
        // As the program's own truncation would: what fails here shows when the file is finished.
        if (before == Before::kDrop && !close.finish) (void)attempt([&] { return close.file->truncate(0); });
        end_deferred(std::move(close));
        lock.lock();
    }
}

// A process at work that has claimed it gives it up in the end: it has patience with its target. One that is ending may
// hang.
Status Engine::State::await_others_closed(const io::Identity& identity) {
    if (!registers_) return Status::ok();
    const std::string folder = closing_folder(), name = closing_name(identity);
    const auto held = io::Claim::is_held(folder, name);
    if (!held || !held.value()) return held.status();
    constexpr std::uint64_t kTurnSeconds = 3600;
    const std::chrono::seconds turn(loaded_.options.patience == 0 ? kTurnSeconds : loaded_.options.patience);
    while (!io::ProcessLock::await_end(folder, name, turn))
        FOREBAY_TRY(await_settled({identity, "a file that is being closed", true}).status());
    return Status::ok();
}

Status Engine::State::await_closed(const io::Identity& identity, Before before) {
    if (ended()) return Status::ok();
    await_own_closed(identity, before);
    return await_others_closed(identity);
}

Status Engine::State::await_all_closed() noexcept { return inherited() || ended() ? Status::ok() : end_all_closes(); }

bool Engine::State::await_a_close() noexcept {
    std::unique_lock lock(mutex_);
    if (closes_under_way_.empty()) return false;
    end_one_close(lock);
    return true;
}

// One that the closing thread has not come to, or else until something has ended. Drops the lock.
void Engine::State::end_one_close(std::unique_lock<std::mutex>& lock) noexcept {
    if (closes_waiting_.empty()) return closed_.wait(lock);
    Deferred close = std::move(closes_waiting_.front());
    closes_waiting_.pop_front();
    lock.unlock();
    end_deferred(std::move(close));
    lock.lock();
}

Status Engine::State::end_all_closes() noexcept {
    std::unique_lock lock(mutex_);
    while (!closes_under_way_.empty()) end_one_close(lock);
    return std::exchange(deferred_failure_, Status::ok());
}

void Engine::State::stop_closing() noexcept {
    {
        const std::lock_guard lock(mutex_);
        closing_stops_ = true;
    }
    close_wanted_.notify_all();
    if (closing_thread_.joinable()) closing_thread_.join();
}

// The process ends. What the closing thread, or a drain thread, is at goes on until then: it is what recovery expects
// of a process that died. Where the job ends soon the process waits: what it starts would end before it.
bool Engine::State::leave_closes(const LeaveTo& leave_to) {
    {
        const std::lock_guard lock(mutex_);
        if (closes_under_way_.empty() || !directory_ || deadline_.presses()) return false;
    }
    if (!attempt([&] { return leave_to(directory_->name()); })) return false;
    {
        const std::lock_guard lock(mutex_);
        closing_stops_ = closes_left_ = true;
        left_closes_ = closes_under_way_.size();
    }
    close_wanted_.notify_all();
    const auto now = std::chrono::steady_clock::now();
    (void)read_cache_.stop(now);
    (void)scheduler_.stop(now);
    leave_forks();
    (void)attempt([&] { tell_statistics(); });
    return true;
}

// ---- statistics ----------------------------------------------------------------------------------------

// A member of the line of a process; empty with close=wait.
std::string Engine::State::closes_as_json() const {
    if (loaded_.options.close == OnClose::kWait) return {};
    std::string waited;
    for (std::size_t i = 0; i < kWaitedNames.size(); ++i)
        if (const auto count = waited_closes_[i].load(std::memory_order_relaxed); count > 0)
            waited += fmt::format(R"({}"{}":{})", waited.empty() ? "" : ",", kWaitedNames[i], count);
    const auto left = left_closes_.load(std::memory_order_relaxed);
    return fmt::format(R"(,"deferred_closes":{}{},"waited_closes":{{{}}})",
                       deferred_closes_.load(std::memory_order_relaxed),
                       left > 0 ? fmt::format(R"(,"left_closes":{})", left) : "", waited);
}

}   // namespace forebay::stage
