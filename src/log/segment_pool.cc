#include "log/segment_pool.h"

#include <algorithm>
#include <utility>

namespace forebay::log {

namespace {

// Twice the most that a writer sends to the target when it gets no warm segment (stage/file_write.cc): the next burst
// begins before the last one is drained.
constexpr std::uint64_t kMissedBytes = std::uint64_t{128} << 20;

}   // namespace

SegmentPool::SegmentPool(std::unique_ptr<io::File> file, PoolLimits limits, const area::ProcessIdentity& process,
                         PoolGauges gauges)
    : process_(process),
      file_(std::move(file), limits),
      slots_(limits.segments(), gauges),
      warmer_(file_, limits, mutex_, slots_, changes_) {}

SegmentPool::~SegmentPool() = default;

Result<Segment*> SegmentPool::acquire(std::uint64_t log, std::uint64_t order, Take take) {
    for (;;) {
        Segment* segment = nullptr;
        {
            std::unique_lock lock(mutex_);
            slots_.note_request();
            // The segment that is being warmed is free too; wait for it.
            const bool may_grow = take == Take::kAny && slots_.may_grow();
            changes_.await(lock, [&] { return slots_.any_free() || may_grow || !slots_.warming(); });
            if (slots_.any_free()) {
                segment = slots_.take();
            } else if (may_grow) {
                const std::uint64_t slot = slots_.reserve(), requests = slots_.requests();
                lock.unlock();
                auto created = file_.create(slot);
                lock.lock();
                if (!created) {
                    slots_.give_up(slot, created.status(), requests);
                    return Status(Code::kNoSpace, created.status().message(), created.status().sys_errno());
                }
                segment = created.value().get();
                slots_.fill(slot, std::move(created).value());
            } else {
                if (take == Take::kWarm) {
                    // A payload that bypasses the log for want of a warm segment counts: the next burst finds more.
                    slots_.note_missed(std::max<std::uint64_t>(1, kMissedBytes / file_.segment_bytes()));
                    warmer_.call();
                }
                return Status(Code::kNoSpace, "the staging log of " + file_.name() + " is full");
            }
            slots_.publish();
            warmer_.call();
        }
        if (segment->begin(process_, log, order)) return segment;
        // The segment's device fails. No log gets it again.
    }
}

void SegmentPool::release(Segment* segment) {
    const bool usable = segment->end();
    // No log gets the segment again, and recovery must not find it in use if the device comes back.
    if (!usable) file_.discard(*segment);
    const std::lock_guard lock(mutex_);
    segment->note_written();
    if (usable) slots_.give_back(segment);
    slots_.publish();
    changes_.announce();
    warmer_.call();
}

void SegmentPool::forget_thread() noexcept {
    warmer_.forget_thread();
    slots_.forget_warming();
}

std::uint64_t SegmentPool::changes() const {
    const std::lock_guard lock(mutex_);
    return changes_.count();
}

void SegmentPool::wait_for_change(std::uint64_t seen, std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    changes_.await_after(lock, seen, until);
}

void SegmentPool::announce_change() {
    const std::lock_guard lock(mutex_);
    changes_.announce();
}

std::uint64_t SegmentPool::allocated() const {
    const std::lock_guard lock(mutex_);
    return slots_.allocated();
}

std::uint64_t SegmentPool::free() const {
    const std::lock_guard lock(mutex_);
    return slots_.free();
}

}   // namespace forebay::log
