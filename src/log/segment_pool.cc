#include "log/segment_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>
#include <system_error>

#include "base/background_thread.h"
#include "base/bytes.h"
#include "extent/stripe.h"
#include "io/guarded_access.h"

namespace forebay::log {

namespace {

// A writer that requests no segment for this long is not in the middle of a burst.
constexpr std::chrono::milliseconds kQuiet{100};
constexpr std::array<std::byte, 16 * 1024> kZeros{};
// Twice the most that a writer sends to the target when it gets no warm segment (stage/file_write.cc): the next burst
// begins before the last one is drained.
constexpr std::uint64_t kMissedBytes = std::uint64_t{128} << 20;

// Words of a segment header that change in use, and that other processes read.
std::atomic_ref<std::uint64_t> word(const Segment& segment, std::size_t offset) noexcept {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(segment.at(offset)));
}

void raise_generation(Segment& segment) noexcept {
    auto generation = word(segment, kGenerationOffset);
    generation.store(little_endian(little_endian(generation.load(std::memory_order_relaxed)) + 1),
                     std::memory_order_release);
    // Later stores into the segment must not become visible before the new generation.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

}   // namespace

std::uint64_t Segment::generation() const noexcept {
    return little_endian(word(*this, kGenerationOffset).load(std::memory_order_acquire));
}

std::uint64_t Segment::use() const noexcept {
    return little_endian(word(*this, kUseOffset).load(std::memory_order_relaxed));
}

std::uint64_t Segment::published_tail() const noexcept {
    return little_endian(word(*this, kTailOffset).load(std::memory_order_acquire));
}

Status Segment::fault(const std::byte* address) const {
    const auto offset = static_cast<std::uint64_t>(address - bytes().data()) + index_ * size();
    return Status::from_errno(EIO, fmt::format("access offset {} of the staging log {}", offset,
                                               file_ != nullptr ? file_->name() : ""));
}

SegmentPool::SegmentPool(std::unique_ptr<io::File> file, PoolLimits limits, const area::ProcessIdentity& process,
                         PoolGauges gauges)
    : file_(std::move(file)),
      limits_(limits),
      process_(process),
      gauges_(gauges),
      reserve_bytes_(limits.reserve_bytes),
      limit_segments_(std::max<std::uint64_t>(2, limits.capacity_bytes / limits.segment_bytes)),
      limit_at_start_(limit_segments_) {}

SegmentPool::~SegmentPool() = default;   // the jthread stops and joins first: it is the last member

Result<std::unique_ptr<Segment>> SegmentPool::create_segment(std::uint64_t index) {
    const std::uint64_t begin = index * limits_.segment_bytes;
    // A file that was cut must not grow again: staged bytes beyond the cut would silently turn into zeros.
    const std::uint64_t grown_to = grown_to_.load();
    const auto file_bytes = file_->size();
    if (!file_bytes) return file_bytes.status();
    if (file_bytes.value() < grown_to)
        return Status::from_errno(EIO, fmt::format("{}: the staging log was cut to {} bytes", file_->name(),
                                                   file_bytes.value()));
    FOREBAY_TRY(file_->allocate(begin, limits_.segment_bytes));
    const auto map = map_of(index);
    if (!map) return map.status();
    auto part = std::make_unique<io::MappingPart>(*map.value(), begin % map.value()->bytes().size(),
                                                  limits_.segment_bytes);
    auto segment = std::make_unique<Segment>(index, std::move(part), file_.get());
    for (std::uint64_t to = grown_to;
         to < begin + limits_.segment_bytes && !grown_to_.compare_exchange_weak(to, begin + limits_.segment_bytes);) {
    }
    return segment;
}

// The mapping of a segment. It may reach beyond the end of file; those pages are not touched until the file grows.
Result<io::Mapping*> SegmentPool::map_of(std::uint64_t index) {
    const std::uint64_t at_once = std::max<std::uint64_t>(1, std::min(limits_.map_bytes / limits_.segment_bytes,
                                                                      limit_at_start_)),
                        which = index / at_once;
    const std::lock_guard lock(mapping_);
    if (which >= maps_.size()) maps_.resize(which + 1);
    if (!maps_[which]) {
        auto mapping = file_->map(which * at_once * limits_.segment_bytes, at_once * limits_.segment_bytes);
        if (!mapping) return mapping.status();
        maps_[which] = std::move(mapping).value();
    }
    return maps_[which].get();
}

// Reserves the slot of the next segment for the caller.
std::uint64_t SegmentPool::new_slot_locked() {
    if (!vacant_.empty()) {
        const std::uint64_t index = vacant_.back();
        vacant_.pop_back();
        return index;
    }
    segments_.emplace_back();
    reserve_free_locked();
    return segments_.size() - 1;
}

// A full device stays full. Limits of the process may change: descriptors, file size, memory. `taken` is the value of
// `taken_` at the request. Later requests do not count as refused.
void SegmentPool::give_up_slot_locked(std::uint64_t index, const Status& why, std::uint64_t taken) noexcept {
    const bool of_the_process = why.sys_errno() == EFBIG || why.sys_errno() == EMFILE || why.sys_errno() == ENFILE ||
                                why.sys_errno() == ENOMEM || why.sys_errno() == EAGAIN;
    vacant_.push_back(index);   // has room (reserve_free_locked)
    taken_when_refused_ = taken;
    if (!of_the_process) {
        limit_segments_ = std::min<std::uint64_t>(limit_segments_, index);
        vacant_.clear();   // the lower ones are not needed
    }
}

Result<Segment*> SegmentPool::acquire(std::uint64_t log, std::uint64_t order, Take take) {
    for (;;) {
        Segment* segment = nullptr;
        {
            std::unique_lock lock(mutex_);
            ++taken_;
            // The segment that is being warmed is free too; wait for it.
            const bool may_grow = take == Take::kAny && may_grow_locked();
            changed_.wait(lock, [&] { return !free_.empty() || !free_cold_.empty() || may_grow || !warming_; });
            if (!free_.empty() || !free_cold_.empty()) {
                auto& from = free_.empty() ? free_cold_ : free_;
                segment = from.back();
                from.pop_back();
            } else if (may_grow) {
                const std::uint64_t index = new_slot_locked(), taken = taken_;
                lock.unlock();
                auto created = create_segment(index);
                lock.lock();
                if (!created) {
                    give_up_slot_locked(index, created.status(), taken);
                    return Status(Code::kNoSpace, created.status().message(), created.status().sys_errno());
                }
                segment = created.value().get();
                segments_[index] = std::move(created).value();
            } else {
                if (take == Take::kWarm) {
                    // A payload that bypasses the log for want of a warm segment counts as in use, so the next burst
                    // finds more.
                    most_in_use_ = std::min(limit_segments_,
                                            most_in_use_ +
                                                std::max<std::uint64_t>(1, kMissedBytes / limits_.segment_bytes));
                    call_toucher_locked();
                }
                return Status(Code::kNoSpace, "the staging log of " + file_->name() + " is full");
            }
            show_locked();
            call_toucher_locked();
        }
        if (begin_segment(*segment, log, order)) return segment;
        // The segment's device fails. No log gets it again.
    }
}

Status SegmentPool::begin_segment(Segment& segment, std::uint64_t log, std::uint64_t order) const {
    segment.tail = kSegmentHeaderBytes;
    segment.live_bytes = 0;
    segment.pins = 0;
    segment.first_time_ns = 0;
    segment.participant = 0;
    segment.order = {};
    SegmentHeader header{limits_.segment_bytes, process_, log, order};
    const std::byte* const fault = io::guarded(segment.bytes(), [&]() noexcept {
        raise_generation(segment);
        segment.own_generation = segment.generation();
        header.taken = static_cast<std::uint32_t>(segment.own_generation);
        word(segment, kTailOffset).store(little_endian(segment.tail), std::memory_order_relaxed);
        word(segment, kNeededOffset).store(0, std::memory_order_relaxed);
        encode(header, segment.bytes().first(kSegmentHeaderBytes));
    });
    return fault == nullptr ? Status::ok() : segment.fault(fault);
}

void SegmentPool::release(Segment* segment) {
    const std::byte* const fault = io::guarded(segment->bytes(), [&]() noexcept {
        word(*segment, 0).store(0, std::memory_order_relaxed);
        raise_generation(*segment);
    });
    // No log gets the segment again, and recovery must not find it in use if the device comes back.
    if (fault != nullptr) (void)file_->punch(segment->index() * limits_.segment_bytes, limits_.segment_bytes);
    const std::lock_guard lock(mutex_);
    if (segment->pages_ == Segment::Pages::kNone) segment->pages_ = Segment::Pages::kWritten;
    if (fault == nullptr) (segment->warm() ? free_ : free_cold_).push_back(segment);
    show_locked();
    ++changes_;
    changed_.notify_all();
    call_toucher_locked();
}

Status SegmentPool::write(const Segment& segment, std::uint64_t offset, std::span<const io::Bytes> pieces) {
    return file_->write_gather_at(segment.index() * limits_.segment_bytes + offset, pieces);
}

void SegmentPool::make_warm(Segment& segment) noexcept {
    if (segment.warm()) return;
    // On a disk, a fault on a page that was never written costs twice as much as writing zeros first.
    if (segment.pages_ == Segment::Pages::kNone && !limits_.in_memory) {
        const std::uint64_t begin = segment.index() * limits_.segment_bytes;
        const std::uint64_t from = align_up(segment.tail, kZeros.size());
        try {
            const std::vector<io::Bytes> zeros(
                (limits_.segment_bytes - std::min(from, limits_.segment_bytes)) / kZeros.size(), io::Bytes(kZeros));
            (void)file_->write_gather_at(begin + from, zeros);
        } catch (const std::bad_alloc&) {
            // Without zeros the pages fault more slowly.
        }
    }
    segment.mapping_->touch();
    segment.pages_ = Segment::Pages::kTouched;
}

void SegmentPool::warm_up() {
    const std::lock_guard lock(mutex_);
    if (toucher_ || limits_.reserve_bytes == 0) return;
    try {
        // Allocate first: a thread that has begun waits for this lock, and could not be joined under it.
        auto thread = std::make_unique<std::jthread>();
        *thread = start_background_thread([this](const std::stop_token& stop) { touch(stop); });
        toucher_ = std::move(thread);
    } catch (const std::system_error&) {
        // Without a thread pages fault at the first store.
    }
}

void SegmentPool::lower_reserve(std::uint64_t bytes) noexcept {
    for (std::uint64_t now = reserve_bytes_.load(std::memory_order_relaxed);
         bytes < now && !reserve_bytes_.compare_exchange_weak(now, bytes, std::memory_order_relaxed);) {
    }
}

void SegmentPool::touch(const std::stop_token& stop) {
    try {
        std::unique_lock lock(mutex_);
        to_touch_.wait_for(lock, stop, limits_.warm_up_after, [] { return false; });
        while (await_quiet(lock, stop)) {
            if (free_cold_.empty()) {
                make_one_warm(lock);
            } else {
                warm_one_that_came_back(lock);
            }
        }
    } catch (const std::bad_alloc&) {
        // No memory for more segments: keep the present ones.
    }
}

// After a failed creation it waits until a log requests another segment.
bool SegmentPool::wants_more_locked() const noexcept {
    const std::uint64_t ahead_max = std::min(reserve_bytes_.load(std::memory_order_relaxed),
                                             most_in_use_ * limits_.segment_bytes);
    return ahead_bytes_ < ahead_max && may_grow_locked() && taken_ != taken_when_refused_;
}

bool SegmentPool::has_to_touch_locked() const noexcept { return !free_cold_.empty() || wants_more_locked(); }

// A condition variable of its own: `changed_` is notified far more often, and would wake this thread in vain.
void SegmentPool::call_toucher_locked() noexcept {
    if (toucher_idle_ && has_to_touch_locked()) to_touch_.notify_one();
}

// Waits until there is work, and no log has requested a segment for a while: a writer in a burst needs the processors.
// Returns false if the pool ends.
bool SegmentPool::await_quiet(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
    for (;;) {
        toucher_idle_ = true;
        const bool any = to_touch_.wait(lock, stop, [&] { return has_to_touch_locked(); });
        toucher_idle_ = false;
        if (!any || stop.stop_requested()) return false;
        const std::uint64_t seen = taken_;
        if (seen == taken_when_quiet_) return true;
        if (!to_touch_.wait_for(lock, stop, std::min(kQuiet, limits_.warm_up_after), [&] { return taken_ != seen; }))
            taken_when_quiet_ = seen;
    }
}

void SegmentPool::make_one_warm(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t index = new_slot_locked(), taken = taken_;
    lock.unlock();
    auto created = create_segment(index);
    if (created) make_warm(*created.value());
    lock.lock();
    if (!created) return give_up_slot_locked(index, created.status(), taken);
    ahead_bytes_ += limits_.segment_bytes;
    // Below the warm ones: the segment used last is warmer still.
    free_.insert(free_.begin(), created.value().get());
    segments_[index] = std::move(created).value();
    show_locked();
    ++changes_;
    changed_.notify_all();
}

void SegmentPool::warm_one_that_came_back(std::unique_lock<std::mutex>& lock) noexcept {
    Segment* const segment = free_cold_.back();
    free_cold_.pop_back();
    warming_ = true;
    lock.unlock();
    make_warm(*segment);
    lock.lock();
    warming_ = false;
    free_.insert(free_.begin(), segment);   // has room (reserve_free_locked)
    changed_.notify_all();
}

// `release` must not allocate memory.
void SegmentPool::reserve_free_locked() {
    free_.reserve(segments_.capacity());
    vacant_.reserve(segments_.capacity());
    free_cold_.reserve(segments_.capacity());
}

void SegmentPool::show_locked() noexcept {
    most_in_use_ = std::max<std::uint64_t>(most_in_use_, segments_.size() - vacant_.size() - free_.size() -
                                                             free_cold_.size() - (warming_ ? 1 : 0));
    if (gauges_.allocated != nullptr)
        gauges_.allocated->store(segments_.size() - vacant_.size(), std::memory_order_relaxed);
    if (gauges_.free != nullptr)
        gauges_.free->store(free_.size() + free_cold_.size() + (warming_ ? 1 : 0), std::memory_order_relaxed);
}

std::uint64_t SegmentPool::changes() const {
    const std::lock_guard lock(mutex_);
    return changes_;
}

void SegmentPool::wait_for_change(std::uint64_t seen, std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    const auto changed = [&] { return changes_ != seen; };
    if (until == std::chrono::steady_clock::time_point::max()) changed_.wait(lock, changed);
    else (void)changed_.wait_until(lock, until, changed);
}

void SegmentPool::announce_change() {
    const std::lock_guard lock(mutex_);
    ++changes_;
    changed_.notify_all();
}

std::uint64_t SegmentPool::allocated() const {
    const std::lock_guard lock(mutex_);
    return segments_.size() - vacant_.size();
}

std::uint64_t SegmentPool::free() const {
    const std::lock_guard lock(mutex_);
    return free_.size() + free_cold_.size() + (warming_ ? 1 : 0);
}

void SegmentPool::forget_thread() noexcept {
    (void)toucher_.release();   // leaked on purpose: joining a thread of the parent is undefined
    warming_ = false;           // its segment is lost to this process
}

}   // namespace forebay::log
