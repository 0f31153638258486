#include "recover/superblock.h"

#include <array>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "extent/range.h"
#include "recover/lookup3.h"

namespace forebay::recover {

namespace {

constexpr std::array<unsigned char, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::uint64_t kFirstUserBlock = 512;
constexpr std::size_t kVersionAt = 8, kOffsetSizeAt = 9, kFlagsAt = 11, kAddressesAt = 12;
constexpr std::size_t kAddresses = 4, kAddressBytesMax = 32;
constexpr std::size_t kSuperblockMax = kAddressesAt + kAddresses * kAddressBytesMax + sizeof(std::uint32_t);
constexpr std::byte kOpenMarks{0x05};   // for writing, for SWMR

}   // namespace

Result<Mark> clear_open_mark(io::File& file) {
    const auto size = file.size();
    if (!size) return size.status();
    for (std::uint64_t at = 0; at < size.value() && at < kOffsetMax / 2; at = at == 0 ? kFirstUserBlock : 2 * at) {
        std::array<std::byte, kSuperblockMax> block{};
        const auto got = file.read_at(at, block);
        if (!got) return got.status();
        if (got.value() < kAddressesAt || std::memcmp(block.data(), kSignature.data(), kSignature.size()) != 0)
            continue;
        const auto version = std::to_integer<unsigned>(block[kVersionAt]);
        if (version != 2 && version != 3) return Mark::kNone;
        const auto checked = kAddressesAt + kAddresses * std::to_integer<std::size_t>(block[kOffsetSizeAt]);
        if (checked + sizeof(std::uint32_t) > got.value()) return Mark::kUnreadable;
        const std::span<std::byte> whole = std::span(block).first(checked + sizeof(std::uint32_t));
        if (lookup3(whole.first(checked)) != load_le<std::uint32_t>(whole.data() + checked)) return Mark::kUnreadable;
        if ((block[kFlagsAt] & kOpenMarks) == std::byte{0}) return Mark::kNone;
        block[kFlagsAt] &= ~kOpenMarks;
        store_le(whole.data() + checked, lookup3(whole.first(checked)));
        FOREBAY_TRY(file.write_at(at + kFlagsAt, whole.subspan(kFlagsAt)));
        return Mark::kCleared;
    }
    return Mark::kNone;
}

}   // namespace forebay::recover
