// The owners of a presence map's units: the right of one process to change a unit.
// A unit has at most one owner, a number from 1 to kOwnersMax that a process holds in its replica's folder. Zero: it is
// free. The word also has the unit's device, which a change of the owner leaves as it is (docs/cache-format.md).
// Invariant: only the owner frees a unit, or the process that takes over from a dead one. Thread-safe, also between
// processes, without a lock. Nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "io/futex.h"

namespace forebay::cache {

inline constexpr std::uint32_t kOwnersMax = 4095;

struct UnitEntry {
    std::atomic<std::uint64_t> present;
    std::atomic<std::uint32_t> generation;
    std::atomic<std::uint32_t> owner;      // with the unit's device
    std::atomic<std::uint64_t> doubtful;   // blocks from before a restart of the machine
};
static_assert(sizeof(UnitEntry) == 24);

class UnitOwners {
  public:
    static constexpr std::uint32_t kDeviceShift = 24, kOwnerMask = 0xffff;

    // `arrivals` is raised when a unit was given up.
    UnitOwners(std::span<UnitEntry> units, io::SharedWord& arrivals) noexcept : units_(units), arrivals_(&arrivals) {}

    // Returns true if the unit was free and `self` owns it now. `found` is the owner.
    [[nodiscard]] bool claim(std::uint64_t unit, std::uint32_t self, std::uint32_t& found) const noexcept;
    // Claims a unit whose owner is `dead`, likewise.
    [[nodiscard]] bool take_over(std::uint64_t unit, std::uint32_t dead, std::uint32_t self) const noexcept;
    // Frees the units of a dead process when a new one takes its number. Needs the lock of the replica's folder, as
    // `take_over` does; otherwise a process could take a unit from the new owner.
    void forget(std::uint32_t number) const noexcept;
    // Called by the owner; wakes waiting processes.
    void give_up(std::uint64_t unit) const noexcept;

  private:
    // Replaces `owner` by `next`; the device stays. False: another owner, now in `owner`.
    [[nodiscard]] bool change(std::uint64_t unit, std::uint32_t& owner, std::uint32_t next) const noexcept;

    std::span<UnitEntry> units_;
    io::SharedWord* arrivals_;
};

}   // namespace forebay::cache
