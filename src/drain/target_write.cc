#include "drain/target_write.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "io/guarded_access.h"
#include "io/page_buffer.h"

namespace forebay::drain {

namespace {

constexpr std::array<std::byte, 64 * 1024> kZeros{};
// A write of many small pieces is first gathered in memory: a system call takes a limited number of pieces, and each
// costs more than its copy. A slow target justifies copying larger pieces. FUSE makes twice as many requests for pieces
// of a page, since each spans two.
constexpr std::uint64_t kGatherBelowBytes = 2048, kGatherBelowBytesWaiting = 32 * 1024;
constexpr std::size_t kGatherFromPieces = 32;
constexpr std::size_t kPiecesPerCall = 1024;   // IOV_MAX on Linux
constexpr std::uint64_t kGatherBytes = std::uint64_t{1}
                                       << 20;   // at a time: what FUSE takes in one request, unless told otherwise

bool has_small_pieces(const plan::TargetWrite& write, std::uint64_t below_bytes) noexcept {
    return write.pieces.size() >= kGatherFromPieces && write.range.size() / write.pieces.size() < below_bytes;
}

Status copy_piece(const plan::Piece& piece, std::uint64_t from, io::MutableBytes to) {
    if (piece.bytes == nullptr) {
        std::memset(to.data(), 0, to.size());
        return Status::ok();
    }
    const io::Bytes bytes(piece.bytes + from, to.size());
    if (io::guarded(bytes, [=]() noexcept { std::memcpy(to.data(), bytes.data(), bytes.size()); }) == nullptr)
        return Status::ok();
    return {Code::kIo, "staged bytes cannot be read", EFAULT};
}

// Uses a small buffer: untouched pages would cost more than the copy. Asks `given_up` before each call of the target.
Status write_gathered(io::File& target, const plan::TargetWrite& write, const std::function<bool()>& given_up) {
    const io::PageBuffer buffer(std::min(write.range.size(), kGatherBytes));
    const io::MutableBytes bytes = buffer.bytes();
    std::uint64_t offset = write.range.begin;
    std::size_t filled = 0;
    for (const plan::Piece& piece : write.pieces)
        for (std::uint64_t from = 0; from < piece.range.size();) {
            // Each call ends at a multiple of kGatherBytes in the file.
            const std::uint64_t limit = std::min<std::uint64_t>(bytes.size(), kGatherBytes - offset % kGatherBytes);
            const io::MutableBytes part = bytes.subspan(filled, std::min(piece.range.size() - from, limit - filled));
            FOREBAY_TRY(copy_piece(piece, from, part));
            from += part.size();
            filled += part.size();
            if (filled < limit && offset + filled < write.range.end) continue;
            if (given_up()) return given_up_error();
            FOREBAY_TRY(target.write_at(offset, bytes.first(filled)));
            offset += std::exchange(filled, 0);
        }
    return Status::ok();
}

Status write_pieces(io::File& target, const plan::TargetWrite& write, const std::function<bool()>& given_up) {
    std::vector<io::Bytes> pieces;
    pieces.reserve(write.pieces.size());
    for (const plan::Piece& piece : write.pieces) {
        if (piece.bytes != nullptr) {
            pieces.emplace_back(piece.bytes, piece.range.size());
            continue;
        }
        for (std::uint64_t left = piece.range.size(); left > 0; left -= pieces.back().size())
            pieces.push_back(io::Bytes(kZeros).first(std::min<std::uint64_t>(left, kZeros.size())));
    }
    std::uint64_t offset = write.range.begin;
    for (std::span<const io::Bytes> rest(pieces); !rest.empty();) {
        if (given_up()) return given_up_error();
        const auto now = rest.first(std::min(rest.size(), kPiecesPerCall));
        FOREBAY_TRY(target.write_gather_at(offset, now));
        for (const io::Bytes& piece : now) offset += piece.size();
        rest = rest.subspan(now.size());
    }
    return Status::ok();
}

}   // namespace

Unreadable find_unreadable(const plan::TargetWrite& write) {
    constexpr std::uintptr_t kPage = 4096;   // the smallest page size
    Unreadable unreadable;
    std::vector<ByteRange>& ranges = unreadable.ranges;
    for (const plan::Piece& piece : write.pieces) {
        if (piece.bytes == nullptr) continue;
        const io::Bytes bytes(piece.bytes, piece.range.size());
        for (const std::byte* at = piece.bytes; at < bytes.data() + bytes.size();) {
            const std::byte* const found = io::find_unreadable(bytes, at);
            if (found == nullptr) break;
            if (ranges.empty()) {
                unreadable.keeper = piece.keeper;
                unreadable.address = found;
            }
            const std::byte* const begin = std::max(found, at);
            const auto into_page = reinterpret_cast<std::uintptr_t>(begin) % kPage;
            at = std::min(begin + (kPage - into_page), bytes.data() + bytes.size());
            const std::uint64_t offset = piece.range.begin + static_cast<std::uint64_t>(begin - piece.bytes);
            const ByteRange range{offset, offset + static_cast<std::uint64_t>(at - begin)};
            if (!ranges.empty() && ranges.back().end == range.begin) ranges.back().end = range.end;
            else ranges.push_back(range);
        }
    }
    return unreadable;
}

Status write_to_target(io::File& target, const plan::TargetWrite& write, bool waits,
                       const std::function<bool()>& given_up) {
    const bool gather = has_small_pieces(write, waits ? kGatherBelowBytesWaiting : kGatherBelowBytes);
    return gather ? write_gathered(target, write, given_up) : write_pieces(target, write, given_up);
}

}   // namespace forebay::drain
