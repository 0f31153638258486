#include "cache/next_uses.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace forebay::cache {

namespace {

template <class Visit>
void each_unit(ByteRange range, Visit&& visit) {
    for (std::uint64_t unit = range.begin / kUnitBytes; unit * kUnitBytes < range.end; ++unit)
        visit(unit, touched_blocks(unit, range));
}

}   // namespace

void NextUses::add(ByteRange range) {
    const std::uint64_t position = end_++;
    if (range.empty()) return;
    for (std::uint64_t number = range.begin / kUnitBytes; number * kUnitBytes < range.end; ++number) {
        if (uses_ == kUsesMax) return;
        Unit& unit = units_[number];
        unit.uses.push_back({position, touched_blocks(number, range)});
        ++uses_;
        set_key(number, unit);
    }
}

void NextUses::note_read(ByteRange range) noexcept {
    if (range.empty()) return;
    each_unit(range, [this](std::uint64_t number, std::uint64_t blocks) {
        const auto found = units_.find(number);
        if (found == units_.end()) return;
        Unit& unit = found->second;
        for (std::size_t i = unit.first; i < unit.uses.size(); ++i) {
            Use& use = unit.uses[i];
            if (blocks == 0 || use.position > read_ + kFar) break;
            const std::uint64_t read = use.blocks & blocks;
            if (read == 0) continue;
            use.blocks &= ~read;
            blocks &= ~read;
            read_ = std::max(read_, use.position);
        }
        forget_late(number, unit);
        if (unit.uses.empty() && unit.stored == 0) units_.erase(found);
    });
    // The first unit of the set may have been skipped.
    if (!by_next_.empty() && by_next_.begin()->first + kFar < read_) {
        const std::uint64_t number = by_next_.begin()->second;
        forget_late(number, units_.find(number)->second);
    }
}

// Removes many uses at a time from units that are read often, so each use moves once on average.
void NextUses::forget_late(std::uint64_t number, Unit& unit) noexcept {
    const auto is_over = [this](const Use& use) { return use.blocks == 0 || use.position + kFar < read_; };
    for (; unit.first < unit.uses.size() && is_over(unit.uses[unit.first]); ++unit.first) --uses_;
    if (2 * unit.first >= unit.uses.size()) {
        unit.uses.erase(unit.uses.begin(), unit.uses.begin() + static_cast<std::ptrdiff_t>(unit.first));
        unit.first = 0;
    }
    set_key(number, unit);
}

void NextUses::set_key(std::uint64_t number, Unit& unit) noexcept {
    if (unit.stored == 0) return;
    const std::uint64_t key = next(number, unit.stored);
    if (key == unit.key) return;
    auto node = by_next_.extract({unit.key, number});
    unit.key = key;
    node.value().first = key;
    by_next_.insert(std::move(node));
}

// Calls `visit` with the position of each use of these blocks, until it returns false.
template <class Visit>
void NextUses::each_use(const Unit& unit, std::uint64_t blocks, Visit&& visit) {
    for (std::size_t i = unit.first; i < unit.uses.size(); ++i)
        if ((unit.uses[i].blocks & blocks) != 0 && !visit(unit.uses[i].position)) return;
}

std::uint64_t NextUses::next(std::uint64_t unit, std::uint64_t blocks) const noexcept {
    std::uint64_t position = kNever;
    if (const auto found = units_.find(unit); found != units_.end())
        each_use(found->second, blocks, [&](std::uint64_t first) {
            position = first;
            return false;
        });
    return position;
}

bool NextUses::is_reused(std::uint64_t unit, std::uint64_t blocks) const noexcept {
    int uses = 0;
    if (const auto found = units_.find(unit); found != units_.end())
        each_use(found->second, blocks, [&](std::uint64_t) { return ++uses < 2; });
    return uses == 2;
}

void NextUses::note_stored(std::uint64_t unit, std::uint64_t blocks) {
    if (blocks == 0) return;
    Unit& known = units_[unit];
    if (known.stored == 0) {
        by_next_.emplace(kNever, unit);
        known.key = kNever;
    }
    known.stored |= blocks;
    set_key(unit, known);
}

void NextUses::note_gone(std::uint64_t unit) noexcept {
    const auto found = units_.find(unit);
    if (found == units_.end() || found->second.stored == 0) return;
    by_next_.erase({found->second.key, unit});
    found->second.stored = 0;
    if (found->second.uses.empty()) units_.erase(found);
}

std::optional<NextUses::Farthest> NextUses::farthest() const noexcept {
    if (by_next_.empty()) return std::nullopt;
    const auto last = std::prev(by_next_.end());
    return Farthest{last->second, last->first};
}

}   // namespace forebay::cache
