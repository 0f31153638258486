// Waits for one target, and the arrivals that end them.
//
// A write, a change of size or a sync that ends is an arrival, and so are new records of other processes. Each arrival
// wakes the waiting threads. A wait fails with ETIMEDOUT once nothing has reached the target for as long as option
// patience says. Nothing is lost by that: the staged bytes stay in the log.
//
// The file's lock guards all of it, except for `announce_unpinned`. Blocking: a function with a parameter `mutex` drops
// that lock, which is the file's, while it waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "drain/failures.h"
#include "drain/patience.h"
#include "drain/write_queue.h"
#include "index/staged_bytes.h"

namespace forebay::drain {

// A call of the target, a sync or a change of size, whose caller may give up waiting. The system reports its outcome
// only once, so the outcome is kept all the same.
struct AwaitedCall {
    bool done = false, given_up = false;
    Status outcome;
};

class Arrivals {
  public:
    // `path` and `bytes` are for messages. All but `process` outlive this.
    Arrivals(const Process& process, const index::StagedBytes& bytes, const std::string& path) noexcept
        : process_(process), bytes_(bytes), path_(path) {}
    // Begins afresh with a target that no flush has waited for in vain.
    void open() noexcept { size_late_at_ = UINT64_MAX; }

    void announce() noexcept;
    // Wakes the waiting threads without an arrival: segments are free, or a sync has ended.
    void announce_unpinned() noexcept { ended_.notify_all(); }
    // Something has reached the target.
    void note_progress() noexcept { progress_ns_ = process_.progress.clock().now_ns(); }

    // Waits until `over()` is true.
    Status await(Mutex& mutex, const std::function<bool()>& over) REQUIRES(mutex);
    // Waits until the next arrival.
    Status await_next(Mutex& mutex) REQUIRES(mutex);
    // Waits until the next arrival, but not beyond `until`. Returns false if there was none in time, and at once if
    // there was none either since this last returned false.
    [[nodiscard]] bool await_briefly(Mutex& mutex, std::chrono::steady_clock::time_point until) REQUIRES(mutex);
    // Waits for the end of the pause before another attempt. Drain threads never do: they serve all files.
    void wait_out_pause(Mutex& mutex, Failures& failures) REQUIRES(mutex);

    // Returns true if writes are under way, and none has ended for as long as patience lasts.
    [[nodiscard]] bool stalled(const WriteQueue& queue) const noexcept;
    // The error of a wait that patience has ended.
    [[nodiscard]] Status timed_out() const;

    // The last sync that a drain thread was given; null: none yet.
    [[nodiscard]] const std::shared_ptr<AwaitedCall>& sync() const noexcept { return sync_; }
    void begin_sync(std::shared_ptr<AwaitedCall> sync) noexcept { sync_ = std::move(sync); }
    // A sync was given up, and is under way still.
    [[nodiscard]] bool sync_hangs() const noexcept { return sync_ && sync_->given_up && !sync_->done; }

  private:
    const Process process_;
    const index::StagedBytes& bytes_;
    const std::string& path_;
    Condition ended_;
    std::uint64_t arrivals_ = 0;
    std::uint64_t size_late_at_ = UINT64_MAX;   // the number of arrivals when `await_briefly` last returned false
    std::uint64_t progress_ns_ = 0;             // monotonic: something has reached the target
    std::shared_ptr<AwaitedCall> sync_;
};

}   // namespace forebay::drain
