#include "cache/unit_replacement.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/attempt.h"

namespace forebay::cache {

namespace {

constexpr int kVictimsMax = 4;   // per unit: another process may take the room they give back

}   // namespace

UnitReplacement::UnitReplacement(std::shared_ptr<CachedFileState> file, std::shared_ptr<SourceFetcher> fetcher) noexcept
    : file_(std::move(file)), fetcher_(std::move(fetcher)) {}

void UnitReplacement::add(ByteRange range) {
    const std::lock_guard lock(mutex_);
    uses_.add(range);
}

void UnitReplacement::note_read(ByteRange range) noexcept {
    if (!is_ordered()) return;
    const std::lock_guard lock(mutex_);
    uses_.note_read(range);
}

// True if a unit of `range` has a next use, and there may be room for it. Needs the mutex.
bool UnitReplacement::is_worth_keeping(ByteRange range) const noexcept {
    const auto farthest = uses_.farthest();
    for (std::uint64_t unit = range.begin / kUnitBytes; unit * kUnitBytes < range.end; ++unit) {
        const std::uint64_t next = uses_.next(unit, touched_blocks(unit, range));
        if (next == NextUses::kNever) continue;
        if (!stored_noted_ || spare_bytes_ > 0 || (farthest && farthest->unit != unit && farthest->next > next))
            return true;
    }
    return false;
}

ByteRange UnitReplacement::widened(ByteRange piece) const noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint64_t size = file_->size();
    const ByteRange whole = whole_blocks(piece, size);   // uses of adjoining ranges do not count
    const std::uint64_t unit = whole.begin / kUnitBytes;
    if (!file_->peers.has_servers() && !uses_.is_reused(unit, touched_blocks(unit, whole))) return piece;
    return {block_floor(piece.begin), std::min(size, block_floor(piece.end + kBlockBytes - 1))};
}

void UnitReplacement::keep(std::uint64_t offset, AheadBuffer::Bytes bytes) noexcept {
    if (!is_ordered()) return;
    {
        const std::lock_guard lock(mutex_);
        if (!is_worth_keeping(whole_blocks({offset, offset + bytes->size()}, file_->size()))) return;
    }
    (void)attempt([&] {
        if (!file_->budget.take(bytes->size())) return;
        auto budget = std::make_shared<PendingBudget::Share>(fetcher_->share(bytes->size()));
        (void)fetcher_->submit([self = shared_from_this(), budget, offset, bytes] {
            (void)attempt([&] { self->store_instead(offset, *bytes); });
            return Status::ok();
        });
    });
}

void UnitReplacement::keep_read(std::uint64_t offset, io::Bytes bytes) noexcept {
    if (!is_ordered() || !file_->buffers()) return;
    {
        const std::lock_guard lock(mutex_);
        if (!is_worth_keeping(whole_blocks({offset, offset + bytes.size()}, file_->size()))) return;
    }
    (void)attempt([&] { keep(offset, std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())); });
}

// Runs in a task. May throw std::bad_alloc.
void UnitReplacement::store_instead(std::uint64_t offset, io::Bytes bytes) {
    if (!file_->buffers() || !file_->version.is_still_source()) return;
    {
        const std::lock_guard lock(mutex_);
        for (std::uint64_t unit = 0; !stored_noted_ && unit < file_->replica->units(); ++unit)
            uses_.note_stored(unit, file_->replica->present_blocks(unit));
        stored_noted_ = true;
    }
    const ByteRange range = whole_blocks({offset, offset + bytes.size()}, file_->size());
    for (std::uint64_t unit = range.begin / kUnitBytes; unit * kUnitBytes < range.end; ++unit) {
        const auto claim = Replica::claim(file_->replica, unit);
        if (!claim) continue;
        const std::uint64_t blocks = touched_blocks(unit, range);
        const std::uint64_t added = bytes_of_blocks(blocks & ~file_->replica->present_blocks(unit));
        Status stored = file_->replica->store(*claim, offset, bytes);
        for (int i = 0; i < kVictimsMax && stored.code() == Code::kNoSpace && make_room(unit, blocks); ++i)
            stored = file_->replica->store(*claim, offset, bytes);
        const std::lock_guard lock(mutex_);
        if (stored.code() == Code::kNoSpace) spare_bytes_ = 0;
        if (!stored) continue;
        spare_bytes_ -= std::min(spare_bytes_, added);
        uses_.note_stored(unit, blocks);
        file_->counters->stored_bytes.fetch_add(added, std::memory_order_relaxed);
    }
}

// Evicts the unit that is used last, if that is after the next use of these blocks. Returns false if there is none.
bool UnitReplacement::make_room(std::uint64_t unit, std::uint64_t blocks) {
    if (const ReplicaUse& use = file_->replica->use(); use.is_pinned() || use.has_others()) return false;
    std::uint64_t victim = 0;
    {
        const std::lock_guard lock(mutex_);
        const auto farthest = uses_.farthest();
        if (!farthest || farthest->unit == unit || farthest->next <= uses_.next(unit, blocks)) return false;
        victim = farthest->unit;
        uses_.note_gone(victim);
    }
    const auto claim = Replica::claim(file_->replica, victim);
    const auto evicted = claim ? file_->replica->evict(*claim) : Result<std::uint64_t>(std::uint64_t{0});
    if (!evicted) return false;
    file_->counters->replaced_bytes.fetch_add(evicted.value(), std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    spare_bytes_ += evicted.value();
    // Another owner changes the unit: look again later.
    if (!claim) stored_noted_ = false;
    return true;
}

void UnitReplacement::forget_order() noexcept {
    const std::lock_guard lock(mutex_);
    ordered_.store(false);
    uses_ = NextUses();
    stored_noted_ = false;
}

}   // namespace forebay::cache
