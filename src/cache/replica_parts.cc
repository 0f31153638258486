#include "cache/replica_parts.h"

#include <fmt/format.h>

#include <utility>

namespace forebay::cache {

namespace {

// Losses after which a device has failed. Fewer come from a passing failure, such as a full thin volume: units that are
// stored again stay. With more, storing and comparing cost more than they bring.
constexpr std::uint32_t kLossesMax = 256;

}   // namespace

std::string replica_name(const io::Identity& identity) {
    return fmt::format("{:x}-{:x}", identity.device, identity.inode);
}

std::string part_name(const io::Identity& source, std::uint64_t made_ns) {
    return fmt::format("{}-{:x}", replica_name(source), made_ns);
}

ReplicaParts::ReplicaParts(io::Directory& folder, std::string name, std::unique_ptr<io::File> bytes) {
    parts_[0] = std::make_unique<ReplicaBytes>(folder, std::move(name), std::move(bytes));
}

void ReplicaParts::add(const PartFolder& where, std::string name, std::unique_ptr<io::File> bytes) {
    folders_[where.device] = where.folder;
    parts_[where.device] = std::make_unique<ReplicaBytes>(*where.folder, std::move(name), std::move(bytes));
    opened_ |= std::uint32_t{1} << where.device;
}

void ReplicaParts::fail(std::uint32_t device) noexcept {
    const std::uint32_t bit = std::uint32_t{1} << device;
    if ((failed_.fetch_or(bit) & bit) == 0) untold_.store(true);
}

bool ReplicaParts::note_loss(std::uint32_t device) noexcept {
    untold_.store(true);
    return losses_[device].fetch_add(1, std::memory_order_relaxed) + 1 >= kLossesMax;
}

}   // namespace forebay::cache
