// Stores bytes that a known order uses again in the place of bytes that it uses later or never.
#include <algorithm>
#include <bit>

#include "base/attempt.h"
#include "cache/cached_file_core.h"

namespace forebay::cache {

namespace {

constexpr int kVictimsMax = 4;   // per unit: another process may take the room they give back

}   // namespace

// True if a unit of `range` has a next use, and there may be room for it. Needs the mutex.
bool CachedFile::Core::is_worth_keeping(ByteRange range) const noexcept {
    const auto farthest = uses_.farthest();
    for (std::uint64_t unit = range.begin / kUnitBytes; unit * kUnitBytes < range.end; ++unit) {
        const std::uint64_t next = uses_.next(unit, touched_blocks(unit, range));
        if (next == NextUses::kNever) continue;
        if (!stored_noted_ || spare_bytes_ > 0 || (farthest && farthest->unit != unit && farthest->next > next))
            return true;
    }
    return false;
}

void CachedFile::Core::keep(const std::shared_ptr<Core>& self, std::uint64_t offset,
                            AheadBuffer::Bytes bytes) noexcept {
    if (!ordered_.load(std::memory_order_relaxed)) return;
    {
        const std::lock_guard lock(mutex_);
        if (!is_worth_keeping(whole_blocks({offset, offset + bytes->size()}, replica_->source().size))) return;
    }
    (void)attempt([&] {
        if (!take_budget(bytes->size())) return;
        auto budget = std::make_shared<Budget>(self, bytes->size());
        submit([self, budget, offset, bytes] {
            (void)attempt([&] { self->store_instead(offset, *bytes); });
            return Status::ok();
        });
    });
}

// The program has read these bytes from the file. The version is compared before they are stored.
void CachedFile::Core::keep_read(const std::shared_ptr<Core>& self, std::uint64_t offset, io::Bytes bytes) noexcept {
    if (!ordered_.load(std::memory_order_relaxed) || !buffers()) return;
    {
        const std::lock_guard lock(mutex_);
        if (!is_worth_keeping(whole_blocks({offset, offset + bytes.size()}, replica_->source().size))) return;
    }
    (void)attempt([&] {
        keep(self, offset, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
    });
}

// Runs in a task. May throw std::bad_alloc.
void CachedFile::Core::store_instead(std::uint64_t offset, io::Bytes bytes) {
    if (!buffers() || !is_still_source()) return;
    {
        const std::lock_guard lock(mutex_);
        for (std::uint64_t unit = 0; !stored_noted_ && unit < replica_->units(); ++unit)
            uses_.note_stored(unit, replica_->present_blocks(unit));
        stored_noted_ = true;
    }
    const ByteRange range = whole_blocks({offset, offset + bytes.size()}, replica_->source().size);
    for (std::uint64_t unit = range.begin / kUnitBytes; unit * kUnitBytes < range.end; ++unit) {
        const auto claim = Replica::claim(replica_, unit);
        if (!claim) continue;
        const std::uint64_t blocks = touched_blocks(unit, range);
        const std::uint64_t added = bytes_of_blocks(blocks & ~replica_->present_blocks(unit));
        Status stored = replica_->store(*claim, offset, bytes);
        for (int i = 0; i < kVictimsMax && stored.code() == Code::kNoSpace && make_room(unit, blocks); ++i)
            stored = replica_->store(*claim, offset, bytes);
        const std::lock_guard lock(mutex_);
        if (stored.code() == Code::kNoSpace) spare_bytes_ = 0;
        if (!stored) continue;
        spare_bytes_ -= std::min(spare_bytes_, added);
        uses_.note_stored(unit, blocks);
        counters.stored_bytes.fetch_add(added, std::memory_order_relaxed);
    }
}

// Evicts the unit that is used last, if that is after the next use of these blocks. Returns false if there is none.
bool CachedFile::Core::make_room(std::uint64_t unit, std::uint64_t blocks) {
    if (replica_->is_pinned() || replica_->has_other_users()) return false;
    std::uint64_t victim = 0;
    {
        const std::lock_guard lock(mutex_);
        const auto farthest = uses_.farthest();
        if (!farthest || farthest->unit == unit || farthest->next <= uses_.next(unit, blocks)) return false;
        victim = farthest->unit;
        uses_.note_gone(victim);
    }
    const auto claim = Replica::claim(replica_, victim);
    const auto evicted = claim ? replica_->evict(*claim) : Result<std::uint64_t>(std::uint64_t{0});
    if (!evicted) return false;
    counters.replaced_bytes.fetch_add(evicted.value(), std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    spare_bytes_ += evicted.value();
    // Another owner changes the unit: look again later.
    if (!claim) stored_noted_ = false;
    return true;
}

// Needs the mutex.
void CachedFile::Core::forget_order() noexcept {
    ordered_.store(false);
    uses_ = NextUses();
    stored_noted_ = false;
}

}   // namespace forebay::cache
