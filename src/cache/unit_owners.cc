#include "cache/unit_owners.h"

namespace forebay::cache {

bool UnitOwners::change(std::uint64_t unit, std::uint32_t& owner, std::uint32_t next) const noexcept {
    std::atomic<std::uint32_t>& word = units_[unit].owner;
    std::uint32_t now = word.load(std::memory_order_acquire);
    while ((now & kOwnerMask) == owner)
        if (word.compare_exchange_weak(now, (now & ~kOwnerMask) | next, std::memory_order_acq_rel)) return true;
    owner = now & kOwnerMask;
    return false;
}

bool UnitOwners::claim(std::uint64_t unit, std::uint32_t self, std::uint32_t& found) const noexcept {
    found = 0;
    return change(unit, found, self);
}

bool UnitOwners::take_over(std::uint64_t unit, std::uint32_t dead, std::uint32_t self) const noexcept {
    return change(unit, dead, self);
}

void UnitOwners::forget(std::uint32_t number) const noexcept {
    bool any = false;
    for (std::uint64_t unit = 0; unit < units_.size(); ++unit) {
        std::uint32_t owner = number;
        any = change(unit, owner, 0) || any;
    }
    if (any) io::raise_and_wake(*arrivals_);
}

void UnitOwners::give_up(std::uint64_t unit) const noexcept {
    units_[unit].owner.fetch_and(~kOwnerMask, std::memory_order_release);
    io::raise_and_wake(*arrivals_);
}

}   // namespace forebay::cache
