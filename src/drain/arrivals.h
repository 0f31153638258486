// The waits for one target, and the arrivals that end them. An arrival is the end of a write, of a change of size or of
// a sync, or new records of other processes. It wakes all waiting threads. Errors: a wait fails with ETIMEDOUT once
// nothing has reached the target for the time in option patience. The staged bytes stay in the log then. Thread-safety:
// the file's lock guards all of it, except `announce_unpinned`. Blocking: a function with a parameter `mutex` waits,
// and drops that lock, the file's, during the wait.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "drain/failures.h"
#include "drain/patience.h"
#include "drain/write_queue.h"
#include "index/staged_bytes.h"

namespace forebay::drain {

// A sync or a change of size whose caller may stop waiting. The system reports an outcome only once, so it is kept.
struct AwaitedCall {
    bool done = false, given_up = false;
    Status outcome;
    // ---- a sync ----
    bool confirms = false;     // on success the bytes sent before it are confirmed
    bool answered = false;     // its outcome is known; it is done once all calls numbered below `below` have ended
    std::uint64_t below = 0;   // see drain/target_calls.h
};

// Returns the outcome of a call to the target. Without memory for the text of a failure it is a failure all the same:
// the system reports it only once.
template <class Call>
[[nodiscard]] Status reported(Call&& call) noexcept {
    try {
        return std::forward<Call>(call)();
    } catch (...) {
        return {Code::kIo, "the call failed", EIO};
    }
}

class Arrivals {
  public:
    // `path` and `bytes` are for messages. All arguments but `context` outlive this.
    Arrivals(const DrainContext& context, const index::StagedBytes& bytes, const std::string& path) noexcept
        : context_(context), bytes_(bytes), path_(path) {}
    // Begins with a target for which no flush has waited in vain.
    void open() noexcept { size_late_at_ = UINT64_MAX; }

    void announce() noexcept;
    // Wakes the waiting threads without an arrival: segments are free.
    void announce_unpinned() noexcept { ended_.notify_all(); }
    // Call when bytes or a size have reached the target.
    void note_progress() noexcept { progress_ns_ = context_.progress.clock().now_ns(); }

    Status await(Mutex& mutex, const std::function<bool()>& over) REQUIRES(mutex);
    Status await_next(Mutex& mutex) REQUIRES(mutex);
    // Waits for an arrival. Returns false if none came by `until`; later calls return false at once until one comes.
    [[nodiscard]] bool await_briefly(Mutex& mutex, std::chrono::steady_clock::time_point until) REQUIRES(mutex);
    // Waits until the pause before another attempt is over. Not for drain threads, which serve all files.
    void wait_out_pause(Mutex& mutex, Failures& failures) REQUIRES(mutex);

    // Returns true if writes are in flight, but none has ended within patience.
    [[nodiscard]] bool stalled(const WriteQueue& queue) const noexcept;
    [[nodiscard]] Status timed_out() const;

    // The last sync; null if there was none.
    [[nodiscard]] const std::shared_ptr<AwaitedCall>& sync() const noexcept { return sync_; }
    [[nodiscard]] bool sync_in_flight() const noexcept { return sync_ && !sync_->done; }
    void begin_sync(std::shared_ptr<AwaitedCall> sync) noexcept { sync_ = std::move(sync); }
    // True if a caller stopped waiting for a sync that is still in flight.
    [[nodiscard]] bool sync_hangs() const noexcept { return sync_ && sync_->given_up && !sync_->done; }

  private:
    const DrainContext context_;
    const index::StagedBytes& bytes_;
    const std::string& path_;
    Condition ended_;
    std::uint64_t arrivals_ = 0;
    std::uint64_t size_late_at_ = UINT64_MAX;   // `arrivals_` when `await_briefly` last returned false
    std::uint64_t progress_ns_ = 0;             // monotonic: the last progress of the target
    std::shared_ptr<AwaitedCall> sync_;
};

}   // namespace forebay::drain
