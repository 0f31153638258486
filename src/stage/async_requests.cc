#include "stage/async_requests.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/attempt.h"
#include "base/background_thread.h"
#include "base/clock.h"
#include "stage/fork.h"

namespace forebay::stage {

namespace {

constexpr std::array kNames{"file", "layout", "conversion", "selection", "unallocated", "held", "collective", "pieces"};
static_assert(kNames.size() == static_cast<std::size_t>(AtOnce::kCount));

// Longer is for ever: the clock would overflow.
constexpr std::uint64_t kLongestNs = std::uint64_t{1} << 60;

bool has_ended(AsyncRequest::State state) noexcept {
    return state != AsyncRequest::State::kWaiting && state != AsyncRequest::State::kRunning;
}

}   // namespace

const char* at_once_name(AtOnce why) noexcept { return kNames.at(static_cast<std::size_t>(why)); }

// Shared by the requests, which may outlive their AsyncRequests.
struct AsyncRequest::Core final : ForkParty {
    Core() { join_forks(); }
    ~Core() override { leave_forks(); }
    void lock_for_fork() override { mutex.lock(); }
    void unlock_after_fork() override { mutex.unlock(); }

    std::mutex mutex;
    std::condition_variable ended;
    std::vector<std::shared_ptr<AsyncRequest>> open;   // have not ended
    std::size_t pieces = 0;                            // of those
    std::atomic<std::size_t> open_count{0};            // of `open`, for threads without the lock
    bool stopped = false;
    AsyncCounters counters;
};

AsyncRequest::AsyncRequest(std::shared_ptr<Core> core, std::shared_ptr<StagedFile> file,
                           std::vector<StagedFile::ReadPart> parts)
    : core_(std::move(core)), file_(std::move(file)), parts_(std::move(parts)) {}

AsyncRequest::~AsyncRequest() = default;

bool AsyncRequest::touches(const StagedFile& file, ByteRange range) const noexcept {
    if (file_.get() != &file) return false;
    // The last piece that begins before the end of the range; pieces of a read seldom overlap each other.
    const auto after = std::ranges::lower_bound(parts_, range.end, {}, &StagedFile::ReadPart::offset);
    return std::any_of(parts_.begin(), after,
                       [&](const StagedFile::ReadPart& part) { return part.offset + part.into.size() > range.begin; });
}

void AsyncRequest::run() noexcept {
    {
        const std::lock_guard lock(core_->mutex);
        if (state_ != State::kWaiting) return;
        state_ = State::kRunning;
        begin_ns_ = realtime_ns();
    }
    const std::uint64_t begin_ns = monotonic_ns();
    Status outcome = attempt([&] { return file_->read(std::span<const StagedFile::ReadPart>(parts_)); });
    const std::uint64_t took_ns = monotonic_ns() - begin_ns;
    const std::lock_guard lock(core_->mutex);
    took_ns_ = took_ns;
    failure_ = std::move(outcome);
    end_locked(failure_ ? State::kDone : State::kFailed);
}

void AsyncRequest::end_locked(State state) noexcept {
    state_ = state;
    if (state == State::kFailed) ++core_->counters.failed;
    if (state == State::kCanceled) ++core_->counters.canceled;
    core_->pieces -= parts_.size();
    parts_ = {};
    file_.reset();   // never the last: the file's close waits for this
    std::erase_if(core_->open, [this](const auto& request) { return request.get() == this; });
    core_->open_count.store(core_->open.size(), std::memory_order_release);
    core_->ended.notify_all();
}

// Its thread is the parent's.
bool AsyncRequest::is_orphan_locked() noexcept {
    if (!core_->inherited() || has_ended(state_)) return false;
    state_ = State::kFailed;
    failure_ = Status(Code::kUnsupported, "forked", EIO);   // short: no memory is taken
    return true;
}

AsyncRequest::State AsyncRequest::wait(std::uint64_t timeout_ns) noexcept {
    std::unique_lock lock(core_->mutex);
    if (is_orphan_locked()) return state_;
    const auto ended = [this] { return has_ended(state_); };
    if (timeout_ns >= kLongestNs) core_->ended.wait(lock, ended);
    else core_->ended.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ended);
    return state_;
}

AsyncRequest::State AsyncRequest::cancel() noexcept {
    const auto held = shared_from_this();
    const std::lock_guard lock(core_->mutex);
    if (!is_orphan_locked() && state_ == State::kWaiting) end_locked(State::kCanceled);
    return state_;
}

AsyncRequests::AsyncRequests(std::size_t threads)
    : core_(std::make_shared<AsyncRequest::Core>()),
      tasks_({.threads_max = threads,
              .start_thread = [](std::function<void()> serve) { return start_background_thread(std::move(serve)); }}) {}

// The engine of the tasks waits for what runs.
AsyncRequests::~AsyncRequests() {
    if (!core_->inherited()) cancel_waiting();
}

Result<std::shared_ptr<AsyncRequest>> AsyncRequests::read(std::shared_ptr<StagedFile> file,
                                                          std::vector<StagedFile::ReadPart> pieces) {
    if (!std::ranges::is_sorted(pieces, {}, &StagedFile::ReadPart::offset))
        std::ranges::sort(pieces, {}, &StagedFile::ReadPart::offset);
    std::uint64_t bytes = 0;
    for (const StagedFile::ReadPart& piece : pieces) bytes += piece.into.size();
    auto made = submit(std::shared_ptr<AsyncRequest>(new AsyncRequest(core_, std::move(file), std::move(pieces))));
    if (!made) return made;
    const std::lock_guard lock(core_->mutex);
    ++core_->counters.reads;
    core_->counters.read_bytes += bytes;
    return made;
}

Result<std::shared_ptr<AsyncRequest>> AsyncRequests::submit(std::shared_ptr<AsyncRequest> request) {
    if (core_->inherited()) return Status(Code::kUnavailable, "HDF5 was in use before this process was forked");
    {
        std::unique_lock lock(core_->mutex);
        core_->ended.wait(lock, [&] {
            return core_->stopped || (core_->open.size() < kRequestsMax &&
                                      (core_->pieces == 0 || core_->pieces + request->parts_.size() <= kPiecesMax));
        });
        if (core_->stopped) return Status(Code::kUnavailable, "the staging engine has ended");
        core_->open.push_back(request);
        core_->pieces += request->parts_.size();
        core_->open_count.store(core_->open.size(), std::memory_order_release);
    }
    // Without memory for a task, or a thread for it, this thread carries it out.
    bool begun = false;
    const Status submitted = attempt([&] {
        const auto task = tasks_.submit({.run = [request] {
            request->run();
            return Status::ok();
        }});
        begun = task.status.is_ok() && task.has_thread;
    });
    if (!submitted || !begun) request->run();
    return request;
}

void AsyncRequests::await_reads(const StagedFile& file, ByteRange range) noexcept {
    if (idle() || core_->inherited()) return;
    std::unique_lock lock(core_->mutex);
    const auto touched = [&] {
        return std::ranges::any_of(core_->open, [&](const auto& request) { return request->touches(file, range); });
    };
    if (!touched()) return;
    ++core_->counters.waits;
    core_->ended.wait(lock, [&] { return !touched(); });
}

void AsyncRequests::await(const StagedFile* file) noexcept {
    if (idle() || core_->inherited()) return;
    std::unique_lock lock(core_->mutex);
    core_->ended.wait(lock, [&] {
        return std::ranges::none_of(core_->open, [&](const auto& request) {
            return file == nullptr || request->file_.get() == file;
        });
    });
}

bool AsyncRequests::idle() const noexcept { return core_->open_count.load(std::memory_order_acquire) == 0; }

void AsyncRequests::count(AtOnce why) noexcept {
    const std::lock_guard lock(core_->mutex);
    ++core_->counters.at_once.at(static_cast<std::size_t>(why));
}

AsyncCounters AsyncRequests::counters() const noexcept {
    const std::lock_guard lock(core_->mutex);
    return core_->counters;
}

void AsyncRequests::cancel_waiting() noexcept {
    const std::lock_guard lock(core_->mutex);
    core_->stopped = true;
    for (std::size_t i = core_->open.size(); i-- > 0;) {
        const std::shared_ptr<AsyncRequest> request = core_->open[i];
        if (request->state_ == AsyncRequest::State::kWaiting) request->end_locked(AsyncRequest::State::kCanceled);
    }
    core_->ended.notify_all();
}

bool AsyncRequests::stop(std::chrono::steady_clock::time_point until) {
    cancel_waiting();
    return tasks_.stop(until);
}

}   // namespace forebay::stage
