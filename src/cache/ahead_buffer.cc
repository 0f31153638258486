#include "cache/ahead_buffer.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace forebay::cache {

namespace {

constexpr std::uint64_t kLooks = 8;   // checks for old ranges while the program passes bytes_max_ bytes

}   // namespace

AheadBuffer::Room AheadBuffer::reserve(std::uint64_t bytes) noexcept {
    Room room;
    const std::lock_guard lock(mutex_);
    if (closed_ || bytes == 0 || bytes > bytes_max_ - std::min(bytes_max_, bytes_.load())) return room;
    if (shared_ != nullptr && !shared_->take(bytes, shared_->limit() / 2)) return room;
    bytes_.fetch_add(bytes, std::memory_order_release);
    room.buffer_ = this;
    room.bytes_ = bytes;
    return room;
}

void AheadBuffer::give_back(std::uint64_t bytes) noexcept {
    bytes_.fetch_sub(bytes);
    if (shared_ != nullptr) shared_->give_back(bytes);
}

AheadBuffer::Ranges::iterator AheadBuffer::at_or_after(std::uint64_t offset) noexcept {
    const auto after = ranges_.upper_bound(offset);
    if (after == ranges_.begin()) return after;
    const auto before = std::prev(after);
    return before->first + before->second.size > offset ? before : after;
}

ByteRange AheadBuffer::begin_fetch(Room& room, ByteRange range, ByteRange asked) {
    const std::lock_guard lock(mutex_);
    std::uint64_t at = range.begin;
    auto next = at_or_after(at);
    while (next != ranges_.end() && next->first <= at && at < range.end) {
        const std::uint64_t to = std::min(range.end, next->first + next->second.size);
        next->second.left += asked.intersect({at, to}).size();
        at = to;
        ++next;
    }
    const std::uint64_t end = next == ranges_.end() ? range.end : std::min(range.end, next->first);
    const ByteRange part{at, std::min(end, at + room.bytes_)};
    if (closed_ || part.begin >= part.end) return {at, at};
    ranges_.emplace_hint(next, part.begin, Held{part.size(), asked.intersect(part).size(), passed_bytes_, nullptr});
    room.bytes_ -= part.size();
    return part;
}

void AheadBuffer::hand_over(std::uint64_t begin, std::vector<std::byte> bytes) noexcept {
    Bytes held;
    try {
        held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    } catch (const std::bad_alloc&) {
        return give_up(begin);
    }
    const std::lock_guard lock(mutex_);
    const auto fetch = ranges_.find(begin);
    if (fetch != ranges_.end()) {
        if (closed_ || fetch->second.left == 0) drop(fetch);
        else fetch->second.bytes = std::move(held);
    }
    fetched_.notify_all();
}

void AheadBuffer::give_up(std::uint64_t begin) noexcept {
    const std::lock_guard lock(mutex_);
    if (const auto fetch = ranges_.find(begin); fetch != ranges_.end()) drop(fetch);
    fetched_.notify_all();
}

// Copies without the lock: a range dropped meanwhile lives until then.
AheadBuffer::Part AheadBuffer::read(std::uint64_t offset, io::MutableBytes into) noexcept {
    Part part;
    Bytes bytes;
    {
        const std::lock_guard lock(mutex_);
        const auto held = at_or_after(offset);
        if (held == ranges_.end() || held->first > offset || held->second.bytes == nullptr) return part;
        bytes = held->second.bytes;
        part.begin = held->first;
        part.bytes = std::min<std::uint64_t>(into.size(), bytes->size() - (offset - part.begin));
        read_bytes_.fetch_add(part.bytes, std::memory_order_relaxed);
        if (count_read(held, part.bytes)) part.dropped = bytes;
    }
    std::memcpy(into.data(), bytes->data() + (offset - part.begin), part.bytes);
    return part;
}

bool AheadBuffer::await(std::uint64_t offset, std::chrono::nanoseconds at_most) noexcept {
    std::unique_lock lock(mutex_);
    const auto is_fetched = [&] {
        const auto held = at_or_after(offset);
        return held != ranges_.end() && held->first <= offset && held->second.bytes == nullptr;
    };
    if (!is_fetched()) return false;
    fetched_.wait_for(lock, at_most, [&] { return !is_fetched(); });
    return true;
}

std::uint64_t AheadBuffer::end_of_gap(std::uint64_t offset, std::uint64_t end) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto next = ranges_.upper_bound(offset);
    return next == ranges_.end() ? end : std::min(end, next->first);
}

void AheadBuffer::note_passed(ByteRange range) noexcept {
    const std::lock_guard lock(mutex_);
    passed_bytes_ += range.size();
    for (auto held = at_or_after(range.begin); held != ranges_.end() && held->first < range.end;) {
        const auto next = std::next(held);
        const std::uint64_t begin = std::max(range.begin, held->first);
        (void)count_read(held, std::min(range.end, held->first + held->second.size) - begin);
        held = next;
    }
    if (passed_bytes_ - looked_at_ >= bytes_max_ / kLooks) drop_old();
}

// Returns true if the range was dropped. A range being fetched stays until then, since its room is taken.
bool AheadBuffer::count_read(Ranges::iterator held, std::uint64_t bytes) noexcept {
    held->second.left -= std::min(held->second.left, bytes);
    if (held->second.left > 0 || held->second.bytes == nullptr) return false;
    drop(held);
    return true;
}

void AheadBuffer::drop_old() noexcept {
    looked_at_ = passed_bytes_;
    for (auto held = ranges_.begin(); held != ranges_.end();) {
        const auto next = std::next(held);
        if (held->second.bytes != nullptr && passed_bytes_ - held->second.passed >= bytes_max_) {
            dropped_bytes_.fetch_add(std::min(held->second.left, held->second.size), std::memory_order_relaxed);
            drop(held);
        }
        held = next;
    }
}

void AheadBuffer::drop(Ranges::iterator held) noexcept {
    give_back(held->second.size);
    ranges_.erase(held);
}

void AheadBuffer::clear() noexcept {
    const std::lock_guard lock(mutex_);
    for (auto held = ranges_.begin(); held != ranges_.end();) {
        const auto next = std::next(held);
        held->second.left = 0;
        if (held->second.bytes != nullptr) drop(held);
        held = next;
    }
}

void AheadBuffer::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    clear();
}

}   // namespace forebay::cache
