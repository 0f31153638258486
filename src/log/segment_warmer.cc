#include "log/segment_warmer.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/background_thread.h"

namespace forebay::log {

namespace {

// A writer that requests no segment for this long is not in the middle of a burst.
constexpr std::chrono::milliseconds kQuiet{100};

}   // namespace

void SegmentWarmer::start() {
    const std::lock_guard lock(mutex_);
    if (thread_ || !has_reserve_) return;
    try {
        // Allocate first: a thread that has begun waits for this lock, and could not be joined under it.
        auto thread = std::make_unique<std::jthread>();
        *thread = start_background_thread([this](const std::stop_token& stop) { run(stop); });
        thread_ = std::move(thread);
    } catch (const std::system_error&) {
        // Without a thread pages fault at the first store.
    }
}

void SegmentWarmer::lower_reserve(std::uint64_t bytes) noexcept {
    for (std::uint64_t now = reserve_bytes_.load(std::memory_order_relaxed);
         bytes < now && !reserve_bytes_.compare_exchange_weak(now, bytes, std::memory_order_relaxed);) {
    }
}

void SegmentWarmer::run(const std::stop_token& stop) {
    try {
        std::unique_lock lock(mutex_);
        work_.wait_for(lock, stop, begin_after_, [] { return false; });
        while (await_quiet(lock, stop)) {
            if (slots_.any_cold()) warm_one(lock);
            else make_one(lock);
        }
    } catch (const std::bad_alloc&) {
        // No memory for more segments: keep the present ones.
    }
}

bool SegmentWarmer::wants_more() const noexcept {
    const std::uint64_t made_max = std::min(reserve_bytes_.load(std::memory_order_relaxed),
                                            slots_.most_in_use() * file_.segment_bytes());
    return made_bytes_ < made_max && slots_.may_grow() && !slots_.refused();
}

void SegmentWarmer::call() noexcept {
    if (idle_ && has_work()) work_.notify_one();
}

// Waits until there is work, and no log has requested a segment for a while. Returns false if the pool ends.
bool SegmentWarmer::await_quiet(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
    for (;;) {
        idle_ = true;
        const bool any = work_.wait(lock, stop, [&] { return has_work(); });
        idle_ = false;
        if (!any || stop.stop_requested()) return false;
        const std::uint64_t seen = slots_.requests();
        if (seen == requests_when_quiet_) return true;
        if (!work_.wait_for(lock, stop, std::min(kQuiet, begin_after_), [&] { return slots_.requests() != seen; }))
            requests_when_quiet_ = seen;
    }
}

void SegmentWarmer::make_one(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t slot = slots_.reserve(), requests = slots_.requests();
    lock.unlock();
    auto created = file_.create(slot);
    if (created) file_.make_warm(*created.value());
    lock.lock();
    if (!created) return slots_.give_up(slot, created.status(), requests);
    made_bytes_ += file_.segment_bytes();
    slots_.add_coldest(created.value().get());
    slots_.fill(slot, std::move(created).value());
    slots_.publish();
    changes_.announce();
}

void SegmentWarmer::warm_one(std::unique_lock<std::mutex>& lock) noexcept {
    Segment* const segment = slots_.begin_warming();
    lock.unlock();
    file_.make_warm(*segment);
    lock.lock();
    slots_.end_warming(segment);
    changes_.announce_warmed();
}

}   // namespace forebay::log
