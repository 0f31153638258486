#include "cache/peer_read.h"

#include <algorithm>

namespace forebay::cache {

Result<std::size_t> read_with_peers(Peers& peers, const PeerReadSource& source, ByteRange whole, ByteRange asked,
                                    io::MutableBytes into, PeerRead& done) {
    const auto place = [&](ByteRange range) { return into.subspan(range.begin - whole.begin, range.size()); };
    std::uint64_t end = whole.end;
    const auto read_source = [&](ByteRange range) -> Status {
        const auto got = source.read(range.begin, place(range));
        FOREBAY_TRY(got.status());
        done.source_bytes += got.value();
        if (got.value() < range.size()) end = std::min(end, range.begin + got.value());
        return Status::ok();
    };
    std::vector<Peers::Run> runs;
    const PeerAnswer told = peers.tell(whole, source.cost_ns(whole.size()), runs);
    if (told == PeerAnswer::kLate) ++done.late;
    if (told != PeerAnswer::kYes) {
        FOREBAY_TRY(read_source(whole));
        return static_cast<std::size_t>(end - whole.begin);
    }
    for (const Peers::Run& run : runs)
        if (!Peers::is_other(run.holder)) FOREBAY_TRY(read_source(run.range));
    for (const Peers::Run& run : runs) {
        if (!Peers::is_other(run.holder)) continue;
        const std::uint64_t begin_ns = source.steady_ns();
        const PeerAnswer answer = peers.read(run.holder, run.range, place(run.range), source.cost_ns(run.range.size()));
        if (answer == PeerAnswer::kYes) {
            done.peer_asked += run.range.intersect(asked).size();
            done.peer_ns += source.steady_ns() - begin_ns;
            continue;
        }
        if (answer == PeerAnswer::kLate) ++done.late;
        FOREBAY_TRY(read_source(run.range));
    }
    return static_cast<std::size_t>(end - whole.begin);
}

std::vector<Peers::Run> tell_ahead(Peers& peers, ByteRange ahead, std::uint64_t cost_ns, PeerRead& done) {
    std::vector<Peers::Run> runs;
    const PeerAnswer told = peers.tell(ahead, cost_ns, runs);
    if (told == PeerAnswer::kLate) ++done.late;
    if (told != PeerAnswer::kYes) return {{ahead, Peers::kSelf}};
    std::vector<Peers::Run> own;
    for (const Peers::Run& run : runs) {
        if (Peers::is_other(run.holder)) peers.take_back(run);
        else own.push_back(run);
    }
    return own;
}

std::vector<ByteRange> tell_prefetch(Peers& peers, ByteRange wanted, std::uint64_t file_bytes,
                                     const std::function<std::uint64_t(std::uint64_t bytes)>& cost_ns, PeerRead& done) {
    const Peers::Homes homes = peers.homes();
    const std::uint64_t piece = peers.piece_bytes();
    std::vector<ByteRange> own;
    for (std::uint64_t at = wanted.begin / piece * piece; at < wanted.end;) {
        const std::uint64_t stripe_end = (at / homes.stripe_bytes + 1) * homes.stripe_bytes;
        const std::uint64_t end = std::min((wanted.end + piece - 1) / piece * piece, stripe_end);
        const ByteRange part{at, std::min(end, file_bytes)};
        at = end;
        if (!homes.is_here(part.begin)) continue;
        for (const Peers::Run& run : tell_ahead(peers, part, cost_ns(part.size()), done)) own.push_back(run.range);
    }
    return own;
}

}   // namespace forebay::cache
