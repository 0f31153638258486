#include "cache/compared_read.h"

#include <algorithm>
#include <array>

namespace forebay::cache {

namespace {

constexpr std::uint64_t kApartMax = 4 * kBlockBytes;   // read apart, since the program wants parts of these blocks
constexpr std::uint64_t kPieceMax = 256 << 10;         // read and compared while the processor's cache has it

std::uint64_t floor_of(std::uint64_t offset) noexcept { return offset / kBlockBytes * kBlockBytes; }

}   // namespace

// The bytes of the blocks from the first one on that equal their checksums. `offset` begins a block.
std::size_t ComparedRead::same_bytes(std::uint64_t offset, io::Bytes blocks) const noexcept {
    std::size_t same = 0;
    while (same < blocks.size()) {
        const std::uint64_t at = offset + same;
        const io::Bytes block = blocks.subspan(same, std::min<std::size_t>(kBlockBytes, blocks.size() - same));
        if (block_checksum(block) != map_.checksum_of(at / kUnitBytes, at % kUnitBytes / kBlockBytes)) break;
        same += block.size();
    }
    return same;
}

// Whole blocks. The last one may end with the source.
Result<ComparedBytes> ComparedRead::read_whole(std::uint64_t offset, io::MutableBytes into) {
    const auto got = replica_.read_at(offset, into);
    if (!got) return got.status();
    if (got.value() < into.size()) return ComparedBytes{};
    const std::size_t same = same_bytes(offset, into);
    return ComparedBytes{same, same < into.size()};
}

// A part of one block, or of few.
Result<ComparedBytes> ComparedRead::read_parts(std::uint64_t offset, io::MutableBytes into) {
    std::array<std::byte, kApartMax> blocks;
    const std::uint64_t from = floor_of(offset), end = offset + into.size();
    const std::uint64_t to = std::min(size_, floor_of(end + kBlockBytes - 1));
    const auto read = read_whole(from, io::MutableBytes(blocks).first(to - from));
    if (!read) return read;
    const std::uint64_t good = std::min(end, from + read.value().bytes);
    if (good <= offset) return ComparedBytes{0, read.value().differs};
    std::copy_n(blocks.begin() + static_cast<std::ptrdiff_t>(offset - from), good - offset, into.begin());
    return ComparedBytes{good - offset, read.value().differs && good < end};
}

Result<ComparedBytes> ComparedRead::read(std::uint64_t offset, io::MutableBytes into) {
    if (replica_.in_memory()) {
        const auto got = replica_.read_at(offset, into);
        return got ? Result<ComparedBytes>(ComparedBytes{got.value(), false}) : Result<ComparedBytes>(got.status());
    }
    const std::uint64_t end = offset + into.size();
    for (std::uint64_t at = offset; at < end;) {
        const std::uint64_t whole_end = end == size_ ? end : floor_of(end);
        const bool begins_block = at % kBlockBytes == 0;
        std::uint64_t to = end;
        bool whole = false;
        if (begins_block && (whole_end == end || whole_end - at >= kApartMax)) {
            whole = true;
            to = std::min(whole_end, at + kPieceMax);
        } else if (floor_of(end + kBlockBytes - 1) - floor_of(at) > kApartMax) {
            to = floor_of(at) + kBlockBytes;   // the first of many blocks
        }
        const io::MutableBytes part = into.subspan(at - offset, to - at);
        const auto read = whole ? read_whole(at, part) : read_parts(at, part);
        if (!read) return read;
        at += read.value().bytes;
        if (at < to) return ComparedBytes{at - offset, read.value().differs};
    }
    return ComparedBytes{into.size(), false};
}

}   // namespace forebay::cache
