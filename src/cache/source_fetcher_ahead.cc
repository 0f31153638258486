// The read-ahead of a fetcher.
#include <algorithm>
#include <utility>

#include "base/attempt.h"
#include "cache/peer_read.h"
#include "cache/source_fetcher.h"

namespace forebay::cache {

void SourceFetcher::read_ahead_from(std::uint64_t first_byte) noexcept {
    const std::lock_guard lock(mutex_);
    ahead_ = ReadAhead(file_->size(), first_byte, file_->policy.sample_share);
}

void SourceFetcher::read_ahead_after_miss(ByteRange missed, Peers* peers) {
    if (!file_->policy.read_ahead) return;
    ByteRange ahead;
    {
        const std::lock_guard lock(mutex_);
        ahead = ahead_.after_miss(missed);
    }
    // Without memory nothing is read ahead.
    if (!ahead.empty()) (void)attempt([&] { read_ahead(ahead, peers); });
}

// Reads whole pieces; leaves out present blocks and units with other owners.
void SourceFetcher::read_ahead(ByteRange range, Peers* peers) {
    const std::uint64_t size = file_->size();
    const std::uint64_t step = peers != nullptr ? peers->piece_bytes() : kBlockBytes;
    for (std::uint64_t at = range.begin / step * step; at < range.end;) {
        const std::uint64_t end = std::min({size, (range.end + step - 1) / step * step, at + kFetchMax,
                                            file_->peers.end_of_claim(at)});
        (void)Replica::revive(file_->replica, at);
        const std::uint64_t gap_end = file_->replica->end_of_gap(at, end);
        if (gap_end == at) {
            at = std::min(end, at + step);
            continue;
        }
        if (!file_->budget.has(gap_end - at)) return;
        const ByteRange piece{at, peers != nullptr ? std::min(size, (gap_end + step - 1) / step * step) : gap_end};
        at = piece.end;
        if (peers == nullptr) {
            (void)fetch_ahead(piece);
            continue;
        }
        PeerRead done;
        for (const Peers::Run& part : tell_ahead(*peers, piece, file_->peers.pace().cost_ns(piece.size()), done)) {
            const std::uint64_t to = fetch_ahead(part.range);
            // Bytes that this node announced before may be on their way to the replica.
            if (to < part.range.end && part.holder == Peers::kNobody)
                peers->take_back({{to, part.range.end}, part.holder});
        }
        file_->counters->late_answers.fetch_add(done.late, std::memory_order_relaxed);
    }
}

// Returns the end of the bytes that are or were fetched.
std::uint64_t SourceFetcher::fetch_ahead(ByteRange piece) {
    if (!file_->budget.take(piece.size())) return piece.begin;
    PendingBudget::Share taken = share(piece.size());
    auto shared = std::make_shared<Fetched>();
    shared->budget = std::move(taken);
    shared->claims = claim_units(piece);
    // A former owner may just have stored missing blocks.
    const std::uint64_t to = shared->claims.empty()
                                 ? piece.begin
                                 : file_->replica->end_of_gap(piece.begin,
                                                              std::min(piece.end, (shared->claims.back().unit() + 1) *
                                                                                      kUnitBytes));
    shared->budget.shrink(to - piece.begin);
    if (to == piece.begin) return to;
    shared->offset = piece.begin;
    const std::uint64_t bytes = to - piece.begin;
    (void)submit([self = shared_from_this(), shared, bytes] {
        if (!self->file_->budget.is_closed()) self->fetch_claimed(*shared, bytes);
        return Status::ok();
    });
    return to;
}

}   // namespace forebay::cache
