// The presence map: tells which blocks of a source file are complete in its replica, in memory shared by processes.
// docs/cache-format.md is the specification. Pure except for the given memory; opens, maps and locks nothing. Decoders
// accept hostile input. Thread-safe, also between processes. Nothing blocks. After a restart of the machine stored
// blocks are doubtful until their checksums were compared, as bits, checksums and bytes reach the device in any order.
// Invariants:
//   1. A set bit means that the block's bytes were written to the replica, all of one version, that in the header.
//   2. Only a unit's owner sets and clears its bits. It clears a bit, then raises the generation, then frees the bytes.
//   3. A block that was on its way to a device counts only if it equals its checksum, each time that it is read: the
//      device may have lost it after the write (cache/compared_read.h).
// So a reader that finds the bits set, reads and compares the blocks, and finds the generation unchanged has read whole
// blocks.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

#include "area/process.h"
#include "base/status.h"
#include "cache/unit_owners.h"
#include "extent/range.h"
#include "io/file.h"
#include "io/futex.h"

namespace forebay::cache {

inline constexpr std::uint64_t kBlockBytes = 4096;
inline constexpr std::uint64_t kUnitBlocks = 64;
inline constexpr std::uint64_t kUnitBytes = kBlockBytes * kUnitBlocks;
inline constexpr std::uint64_t kPresenceMagic = 0x3145484341434246;   // "FBCACHE1" in memory
// kSpreadVersion: units may lie on further devices.
inline constexpr std::uint32_t kPresenceVersion = 2, kSpreadVersion = 3;
inline constexpr std::uint32_t kDevicesMax = 32;              // of one cache, with the first one
inline constexpr std::uint32_t kPinned = 1, kPermanent = 2;   // PresenceHeader::flags

// Equal versions have equal bytes if the later of the two times is older than a tick of the file system's clock.
struct Version {
    io::Identity identity;
    std::uint64_t born_ns = 0, generation = 0;   // generation: 0, as no call asks for it
    std::uint64_t size = 0, modified_ns = 0, changed_ns = 0;
    friend bool operator==(const Version&, const Version&) = default;
};
[[nodiscard]] Version version_of(const io::Identity& identity, const io::FileState& state) noexcept;

enum class MapState : std::uint32_t { kBeingMade = 0, kValid = 1, kVoid = 2 };

struct PresenceHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::atomic<MapState> state;
    Version source;
    area::BootId boot_id;
    std::uint64_t checksum;
    std::uint64_t unused[4];
    std::atomic<std::uint64_t> stored_bytes;
    std::atomic<std::uint64_t> used_ns;   // CLOCK_REALTIME
    std::atomic<std::uint64_t> opens;
    std::uint64_t made_ns;
    io::SharedWord arrivals;   // raised when a unit was published or given up
    std::atomic<std::uint32_t> flags;
    std::uint64_t unused_too[11];
    std::atomic<std::uint64_t> device_bytes[kDevicesMax];   // of further devices; stored_bytes is of the first one

    [[nodiscard]] std::uint64_t all_bytes() const noexcept {
        std::uint64_t bytes = stored_bytes.load(std::memory_order_relaxed);
        for (const auto& one : device_bytes) bytes += one.load(std::memory_order_relaxed);
        return bytes;
    }
    [[nodiscard]] std::atomic<std::uint64_t>& bytes_on(std::uint32_t device) noexcept {
        return device == 0 ? stored_bytes : device_bytes[device];
    }
};

// Offsets in the map, for remote readers. docs/cache-format.md.
inline constexpr std::uint64_t kMapHeaderBytes = 4096, kMapStateOffset = 12;
[[nodiscard]] constexpr std::uint64_t units_of(std::uint64_t source_bytes) noexcept {
    return source_bytes / kUnitBytes + (source_bytes % kUnitBytes != 0 ? 1 : 0);
}
[[nodiscard]] constexpr std::uint64_t entry_offset(std::uint64_t unit) noexcept {
    return kMapHeaderBytes + unit * sizeof(UnitEntry);
}
[[nodiscard]] constexpr std::uint64_t checksums_offset(std::uint64_t source_bytes) noexcept {
    return (entry_offset(units_of(source_bytes)) + kMapHeaderBytes - 1) / kMapHeaderBytes * kMapHeaderBytes;
}
[[nodiscard]] std::uint32_t block_checksum(io::Bytes block) noexcept;

[[nodiscard]] constexpr std::uint64_t block_mask(std::uint64_t first, std::uint64_t end) noexcept {
    const std::uint64_t below_end = end >= kUnitBlocks ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1;
    return first >= kUnitBlocks ? 0 : below_end & ~((std::uint64_t{1} << first) - 1);
}
[[nodiscard]] constexpr std::uint64_t bytes_of_blocks(std::uint64_t blocks) noexcept {
    return static_cast<std::uint64_t>(std::popcount(blocks)) * kBlockBytes;
}
[[nodiscard]] constexpr std::uint64_t touched_blocks(std::uint64_t unit, ByteRange range) noexcept {
    const std::uint64_t begin = unit * kUnitBytes;
    if (range.end <= begin || range.begin >= begin + kUnitBytes || range.begin >= range.end) return 0;
    const std::uint64_t from = range.begin > begin ? range.begin - begin : 0;
    const std::uint64_t to = range.end - begin < kUnitBytes ? range.end - begin : kUnitBytes;
    return block_mask(from / kBlockBytes, (to + kBlockBytes - 1) / kBlockBytes);
}

class Presence {
  public:
    [[nodiscard]] static std::uint64_t bytes_for(std::uint64_t source_bytes) noexcept;

    // Writes a header into zeroed memory; the state becomes valid last.
    static void make(io::MutableBytes memory, const Version& source, const area::BootId& boot_id, std::uint64_t now_ns,
                     std::uint32_t version = kPresenceVersion) noexcept;
    // kCorrupt: no complete presence map. kUnsupported: another version of the format.
    [[nodiscard]] static Result<Presence> open(io::MutableBytes memory);

    [[nodiscard]] PresenceHeader& header() const noexcept { return *header_; }
    [[nodiscard]] std::uint64_t units() const noexcept { return units_.size(); }
    [[nodiscard]] bool spreads() const noexcept { return header_->version == kSpreadVersion; }
    // Lets units lie on further devices. No other process may map the file.
    void spread() const noexcept;
    // The device of the unit's bytes. Read it after the bits: a later change of the device also changes the generation.
    [[nodiscard]] std::uint32_t device_of(std::uint64_t unit) const noexcept {
        return units_[unit].owner.load(std::memory_order_acquire) >> UnitOwners::kDeviceShift;
    }
    // Called by the owner, while no bit of the unit is set or in doubt.
    void set_device(std::uint64_t unit, std::uint32_t device) const noexcept;
    [[nodiscard]] bool is_void() const noexcept {
        return header_->state.load(std::memory_order_relaxed) != MapState::kValid;
    }
    // After a restart of the machine: makes all blocks doubtful and all units free. No other process may map the file.
    void doubt_all(const area::BootId& boot_id) const noexcept;
    [[nodiscard]] std::uint64_t doubtful(std::uint64_t unit) const noexcept {
        return units_[unit].doubtful.load(std::memory_order_relaxed);
    }
    // Called by the owner after the blocks were compared and published, or dropped. Returns the doubtful ones.
    std::uint64_t end_doubt(std::uint64_t unit) const noexcept { return units_[unit].doubtful.exchange(0); }

    // Call before the replica's bytes leave the account. A process that stores adds its bytes first, then checks this.
    void make_void() const noexcept { header_->state.store(MapState::kVoid); }
    // Checks that a header is complete, of a known version and undamaged. Does not check the size of the map.
    [[nodiscard]] static Status check(const PresenceHeader& header);

    // A reader's look at the map: `whole` if all of the blocks are present, and their generation.
    struct Seen {
        bool whole = false;
        std::uint32_t generation = 0;
        friend bool operator==(const Seen&, const Seen&) = default;
    };
    [[nodiscard]] Seen look(std::uint64_t unit, std::uint64_t blocks) const noexcept {
        const UnitEntry& entry = units_[unit];
        // Read the generation first: if blocks are removed in between, the second look differs.
        const std::uint32_t generation = entry.generation.load(std::memory_order_acquire);
        return {(entry.present.load(std::memory_order_acquire) & blocks) == blocks, generation};
    }
    // Returns true if the unit's generation is still that of `seen`, after the replica was read.
    [[nodiscard]] bool still(std::uint64_t unit, Seen seen) const noexcept {
        std::atomic_thread_fence(std::memory_order_acquire);
        return units_[unit].generation.load(std::memory_order_relaxed) == seen.generation;
    }

    [[nodiscard]] UnitOwners owners() const noexcept { return {units_, header_->arrivals}; }

    // Called by the owner, after it wrote the bytes to the replica.
    void set_checksum(std::uint64_t unit, std::uint64_t block, std::uint32_t checksum) const noexcept;
    [[nodiscard]] std::uint32_t checksum_of(std::uint64_t unit, std::uint64_t block) const noexcept;
    // Returns the bits that were clear before.
    std::uint64_t publish(std::uint64_t unit, std::uint64_t blocks) const noexcept;
    // Called by the owner, before it punches the hole. Returns the bits that were set.
    std::uint64_t withdraw(std::uint64_t unit, std::uint64_t blocks) const noexcept;
    [[nodiscard]] std::uint64_t present(std::uint64_t unit) const noexcept {
        return units_[unit].present.load(std::memory_order_acquire);
    }

  private:
    Presence(PresenceHeader* header, std::span<UnitEntry> units, std::span<std::atomic<std::uint32_t>> checksums)
        : header_(header), units_(units), checksums_(checksums) {}

    PresenceHeader* header_;
    std::span<UnitEntry> units_;
    std::span<std::atomic<std::uint32_t>> checksums_;
};

}   // namespace forebay::cache
