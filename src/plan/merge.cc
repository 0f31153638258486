#include "plan/merge.h"

#include "extent/stripe.h"

namespace forebay::plan {

namespace {

Piece slice(const Piece& piece, ByteRange range) noexcept {
    return {range, piece.bytes == nullptr ? nullptr : piece.bytes + (range.begin - piece.range.begin), piece.sequence,
            piece.keeper};
}

}   // namespace

std::vector<TargetWrite> merge(std::span<const Piece> pieces, const Policy& policy) {
    std::vector<TargetWrite> writes;
    for (std::size_t first = 0; first < pieces.size();) {
        std::size_t last = first;   // pieces [first, last] adjoin
        while (last + 1 < pieces.size() && pieces[last + 1].range.begin == pieces[last].range.end) ++last;

        ByteRange rest{pieces[first].range.begin, pieces[last].range.end};
        const std::uint64_t boundary = align_down(rest.end, policy.stripe);
        if (rest.end == policy.growing_at || (boundary > rest.begin && rest.end - boundary < policy.run_min))
            rest.end = boundary;
        if (rest.begin < rest.end && rest.size() < policy.run_min) rest.end = rest.begin;
        std::size_t at = first;
        while (!rest.empty()) {
            TargetWrite write{{rest.begin, cut(rest, policy.stripe, policy.write_max)}, {}};
            while (write.pieces.size() < policy.pieces_max) {
                const ByteRange part = pieces[at].range.intersect(write.range);
                write.pieces.push_back(slice(pieces[at], part));
                rest.begin = part.end;
                if (part.end == write.range.end) break;
                ++at;
            }
            write.range.end = rest.begin;
            if (pieces[at].range.end == rest.begin) ++at;
            writes.push_back(std::move(write));
        }
        first = last + 1;
    }
    return writes;
}

}   // namespace forebay::plan
