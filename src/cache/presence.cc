#include "cache/presence.h"

#include <cstddef>
#include <cstring>

#include "base/checksum.h"

namespace forebay::cache {

namespace {

// docs/cache-format.md.
static_assert(offsetof(PresenceHeader, state) == kMapStateOffset);
static_assert(offsetof(PresenceHeader, source) == 16);
static_assert(offsetof(PresenceHeader, boot_id) == 72);
static_assert(offsetof(PresenceHeader, checksum) == 88);
static_assert(offsetof(PresenceHeader, stored_bytes) == 128);
static_assert(offsetof(PresenceHeader, arrivals) == 160);
static_assert(offsetof(PresenceHeader, device_bytes) == 256);
static_assert(sizeof(PresenceHeader) <= kMapHeaderBytes);
static_assert(sizeof(Version) == 56);

std::uint64_t seal_of(const PresenceHeader& header) noexcept {
    std::array<std::byte, offsetof(PresenceHeader, checksum)> bytes{};
    const std::uint64_t magic = kPresenceMagic;
    const auto valid = static_cast<std::uint32_t>(MapState::kValid);
    std::memcpy(bytes.data(), &magic, sizeof magic);
    std::memcpy(&bytes[offsetof(PresenceHeader, version)], &header.version, sizeof header.version);
    std::memcpy(&bytes[offsetof(PresenceHeader, state)], &valid, sizeof valid);
    std::memcpy(&bytes[offsetof(PresenceHeader, source)], &header.source, sizeof header.source);
    std::memcpy(&bytes[offsetof(PresenceHeader, boot_id)], &header.boot_id, sizeof header.boot_id);
    return forebay::checksum(bytes);
}

}   // namespace

std::uint32_t block_checksum(io::Bytes block) noexcept { return static_cast<std::uint32_t>(checksum(block)); }

Version version_of(const io::Identity& identity, const io::FileState& state) noexcept {
    return {identity, state.born_ns, state.generation, state.size, state.modified_ns, state.changed_ns};
}

std::uint64_t Presence::bytes_for(std::uint64_t source_bytes) noexcept {
    return checksums_offset(source_bytes) + units_of(source_bytes) * kUnitBlocks * sizeof(std::uint32_t);
}

void Presence::make(io::MutableBytes memory, const Version& source, const area::BootId& boot_id, std::uint64_t now_ns,
                    std::uint32_t version) noexcept {
    auto* const header = reinterpret_cast<PresenceHeader*>(memory.data());
    header->version = version;
    header->source = source;
    header->boot_id = boot_id;
    header->made_ns = now_ns;
    header->checksum = seal_of(*header);
    header->magic = kPresenceMagic;
    header->state.store(MapState::kValid, std::memory_order_release);
}

Status Presence::check(const PresenceHeader& header) {
    if (header.state.load(std::memory_order_acquire) == MapState::kBeingMade || header.magic != kPresenceMagic)
        return {Code::kCorrupt, "a presence map was not finished"};
    if (header.version != kPresenceVersion && header.version != kSpreadVersion)
        return {Code::kUnsupported, "a presence map is of another version of the format"};
    if (header.checksum != seal_of(header)) return {Code::kCorrupt, "the header of a presence map is damaged"};
    return Status::ok();
}

Result<Presence> Presence::open(io::MutableBytes memory) {
    if (memory.size() < kMapHeaderBytes) return Status(Code::kCorrupt, "a presence map is shorter than its header");
    auto* const header = reinterpret_cast<PresenceHeader*>(memory.data());
    FOREBAY_TRY(check(*header));
    // Check before `bytes_for`, which would overflow.
    const std::uint64_t units = units_of(header->source.size);
    if (units > memory.size() / sizeof(UnitEntry) || memory.size() < bytes_for(header->source.size))
        return Status(Code::kCorrupt, "a presence map is too short for the size of its file");
    auto* const entries = reinterpret_cast<UnitEntry*>(memory.data() + kMapHeaderBytes);
    auto* const checksums = reinterpret_cast<std::atomic<std::uint32_t>*>(memory.data() +
                                                                          checksums_offset(header->source.size));
    return Presence(header, {entries, units}, {checksums, units * kUnitBlocks});
}

void Presence::doubt_all(const area::BootId& boot_id) const noexcept {
    for (UnitEntry& entry : units_) {
        entry.doubtful.fetch_or(entry.present.exchange(0));
        entry.owner.fetch_and(~UnitOwners::kOwnerMask);
    }
    header_->boot_id = boot_id;
    header_->checksum = seal_of(*header_);
}

void Presence::spread() const noexcept {
    header_->version = kSpreadVersion;
    header_->checksum = seal_of(*header_);
}

void Presence::set_device(std::uint64_t unit, std::uint32_t device) const noexcept {
    std::atomic<std::uint32_t>& owner = units_[unit].owner;
    owner.store((owner.load(std::memory_order_relaxed) & UnitOwners::kOwnerMask) | device << UnitOwners::kDeviceShift,
                std::memory_order_release);
}

void Presence::set_checksum(std::uint64_t unit, std::uint64_t block, std::uint32_t checksum) const noexcept {
    checksums_[unit * kUnitBlocks + block].store(checksum, std::memory_order_relaxed);
}

std::uint32_t Presence::checksum_of(std::uint64_t unit, std::uint64_t block) const noexcept {
    return checksums_[unit * kUnitBlocks + block].load(std::memory_order_relaxed);
}

std::uint64_t Presence::publish(std::uint64_t unit, std::uint64_t blocks) const noexcept {
    return blocks & ~units_[unit].present.fetch_or(blocks, std::memory_order_acq_rel);
}

std::uint64_t Presence::withdraw(std::uint64_t unit, std::uint64_t blocks) const noexcept {
    // In this order: a reader that saw the blocks saw the old generation.
    const std::uint64_t withdrawn = blocks & units_[unit].present.fetch_and(~blocks, std::memory_order_acq_rel);
    units_[unit].generation.fetch_add(1, std::memory_order_acq_rel);
    return withdrawn;
}

}   // namespace forebay::cache
