// Compares the stored bytes of a replica with their checksums and with the source.
#include <algorithm>
#include <array>
#include <vector>

#include "base/attempt.h"
#include "cache/replica.h"

namespace forebay::cache {

bool Replica::revive(const std::shared_ptr<Replica>& replica, std::uint64_t offset) {
    Replica& self = *replica;
    const std::uint64_t unit = offset / kUnitBytes, begin = unit * kUnitBytes;
    if (self.unusable() || offset >= self.source_.size || self.map_.doubtful(unit) == 0) return false;
    const auto claimed = claim(replica, unit);
    if (!claimed) return false;
    const std::uint32_t device = self.map_.device_of(unit);
    const auto file = self.open_bytes(device);   // unreadable blocks stay doubtful
    if (!file) return false;
    const std::uint64_t doubtful = self.map_.end_doubt(unit);
    std::uint64_t whole = 0;
    std::array<std::byte, kBlockBytes> block;
    for (std::uint64_t i = 0; i < kUnitBlocks; ++i) {
        const std::uint64_t at = begin + i * kBlockBytes;
        if ((doubtful >> i & 1) == 0 || at >= self.source_.size) continue;
        const io::MutableBytes part(block.data(), std::min(kBlockBytes, self.source_.size - at));
        std::size_t got = 0;
        (void)attempt([&] {   // without memory the block is dropped
            const auto read = file.value()->read_at(at, part);
            if (read) got = read.value();
        });
        if (got == part.size() && block_checksum(part) == self.map_.checksum_of(unit, i))
            whole |= std::uint64_t{1} << i;
    }
    // Blocks that are present by now were counted when they were stored.
    const std::uint64_t published = self.map_.publish(unit, whole);
    self.uncount(bytes_of_blocks(doubtful & ~published), device);
    return published != 0;
}

Result<Replica::Verified> Replica::verify(const Claim& claim, io::File* source) {
    const std::uint64_t unit = claim.unit(), begin = unit * kUnitBytes;
    const std::uint64_t size = std::min(kUnitBytes, source_.size - std::min(source_.size, begin));
    std::vector<std::byte> block(kBlockBytes), expected(source == nullptr ? 0 : size);
    if (source != nullptr) {
        const auto read = source->read_at(begin, expected);
        if (!read) return read.status();
        expected.resize(read.value());
    }
    const std::uint32_t device = map_.device_of(unit);
    const auto file = open_bytes(device);
    if (!file) return parts_.usable(device) ? fail(file.status(), device) : file.status();
    Verified result;
    const std::uint64_t doubtful = map_.end_doubt(unit), present = map_.present(unit) | doubtful;
    for (std::uint64_t i = 0; i < kUnitBlocks; ++i) {
        if ((present >> i & 1) == 0) continue;
        const std::uint64_t at = i * kBlockBytes;
        const io::MutableBytes part(block.data(), std::min(kBlockBytes, size - std::min(size, at)));
        const auto read = file.value()->read_at(begin + at, part);
        result.checked_bytes += part.size();
        const bool whole = read && read.value() == part.size() && block_checksum(part) == map_.checksum_of(unit, i);
        const bool same = source == nullptr ||
                          (at + part.size() <= expected.size() &&
                           std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(at)));
        if (whole && same) {
            if ((doubtful >> i & 1) != 0) map_.publish(unit, std::uint64_t{1} << i);
            continue;
        }
        (whole ? result.different_bytes : result.damaged_bytes) += part.size();
        map_.withdraw(unit, std::uint64_t{1} << i);
        uncount(kBlockBytes, device);
        (void)file.value()->punch(begin + at, part.size());
    }
    return result;
}

}   // namespace forebay::cache
