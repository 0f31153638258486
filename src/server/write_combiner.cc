#include "server/write_combiner.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"

namespace forebay::server {

namespace {

constexpr std::uint64_t kChunkMax = std::uint64_t{16} << 20;   // a write of the file
constexpr ByteRange kAll{0, kOffsetMax};

ByteRange range_of(const WriteCombiner::Piece& piece) noexcept {
    return {piece.offset, piece.offset + piece.bytes.size()};
}

void keep_first(Status& kept, const Status& outcome) noexcept {
    if (kept && !outcome) kept = copy_of(outcome, "a write failed");
}

}   // namespace

Status WriteCombiner::write(std::span<const Piece> pieces) {
    Request request{pieces};
    RangeSet own;
    for (const Piece& piece : pieces) {
        const ByteRange range = range_of(piece);
        request.in_order = request.in_order || own.overlaps(range);
        if (request.in_order) break;
        if (!range.empty()) own.add(range);
    }
    return submit(request);
}

Status WriteCombiner::alone(const std::function<Status()>& act) {
    Request request;
    request.act = &act;
    return submit(request);
}

WriteCombiner::Totals WriteCombiner::totals() const {
    const std::lock_guard lock(mutex_);
    return totals_;
}

Status WriteCombiner::submit(Request& request) {
    std::unique_lock lock(mutex_);
    queue_.push_back(&request);
    if (request.act == nullptr) ++totals_.requests;
    for (const Piece& piece : request.pieces) totals_.bytes += piece.bytes.size();
    while (!request.done) {
        Batch batch;
        // Without memory for a batch this thread's own request fails, unless somebody has taken it.
        const Status taken = attempt([&] {
            if (leaders_ < leaders_max_) batch = take();
        });
        if (!taken) {
            const auto mine = std::ranges::find(queue_, &request);
            if (mine == queue_.end()) {
                changed_.wait(lock);
                continue;
            }
            queue_.erase(mine);
            changed_.notify_all();   // others may have waited for its range
            return taken;
        }
        if (batch.empty()) {
            changed_.wait(lock);
            continue;
        }
        ++leaders_;
        lock.unlock();
        const Status outcome = attempt([&] { carry_out(batch); });
        lock.lock();
        --leaders_;
        for (Request* const each : batch) {
            keep_first(each->outcome, outcome);
            forget_written(*each);
            each->done = true;
        }
        changed_.notify_all();
    }
    return std::move(request.outcome);
}

void WriteCombiner::forget_written(const Request& request) noexcept {
    if (request.act != nullptr || request.in_order) return being_written_.remove(kAll);
    for (const Piece& piece : request.pieces)
        if (!piece.bytes.empty()) being_written_.remove(range_of(piece));
}

WriteCombiner::Batch WriteCombiner::take() {
    Batch batch;
    bool more = false;
    try {
        take_into(batch, more);
    } catch (...) {
        for (const Request* const each : batch) forget_written(*each);
        throw;
    }
    if (more && leaders_ + 1 < leaders_max_) changed_.notify_all();
    return batch;
}

namespace {

// A range of a request that may be written now: `request` is its place among those.
struct Candidate {
    ByteRange range;
    std::size_t request;
};

// Which of `count` requests come in one write with the first of them: they adjoin it, or one that does.
std::vector<bool> joined_with_first(std::vector<Candidate>& candidates, std::size_t count) {
    std::ranges::sort(candidates, {}, [](const Candidate& one) { return one.range.begin; });
    std::vector<bool> joined(count, false);
    joined[0] = true;
    // A request of several ranges may bring others in at each of them.
    for (bool grows = true; grows;) {
        grows = false;
        for (std::size_t i = 1; i < candidates.size(); ++i) {
            const Candidate &left = candidates[i - 1], &right = candidates[i];
            if (left.range.end != right.range.begin || joined[left.request] == joined[right.request]) continue;
            joined[left.request] = joined[right.request] = grows = true;
        }
    }
    return joined;
}

}   // namespace

// A request whose own order matters is carried out with nothing else under way.
void WriteCombiner::take_into(Batch& batch, bool& more) {
    using Place = std::list<Request*>::iterator;
    RangeSet earlier;   // of requests that were looked at
    std::vector<Place> free;
    std::vector<Candidate> candidates;
    for (Place at = queue_.begin(); at != queue_.end(); ++at) {
        Request& request = **at;
        if (request.act != nullptr || request.in_order) {
            // Nothing behind it is taken before it.
            if (at != queue_.begin() || !being_written_.empty()) break;
            batch.push_back(&request);
            being_written_.add(kAll);
            queue_.erase(at);
            return;
        }
        const bool waits = std::ranges::any_of(request.pieces, [&](const Piece& piece) {
            return being_written_.overlaps(range_of(piece)) || earlier.overlaps(range_of(piece));
        });
        for (const Piece& piece : request.pieces) {
            if (piece.bytes.empty()) continue;
            if (!waits) candidates.push_back({range_of(piece), free.size()});
            earlier.for_each_gap(range_of(piece), [&](ByteRange gap) { earlier.add(gap); });
        }
        if (!waits) free.push_back(at);
    }
    if (free.empty()) return;
    const std::vector<bool> joined = joined_with_first(candidates, free.size());
    batch.reserve(free.size());
    for (std::size_t i = 0; i < free.size(); ++i) {
        if (!joined[i]) {
            more = true;
            continue;
        }
        Request& request = **free[i];
        batch.push_back(&request);
        for (const Piece& piece : request.pieces)
            if (!piece.bytes.empty()) being_written_.add(range_of(piece));
    }
    for (std::size_t i = 0; i < free.size(); ++i)
        if (joined[i]) queue_.erase(free[i]);
}

void WriteCombiner::carry_out(const Batch& batch) {
    if (batch.front()->act != nullptr) {
        batch.front()->outcome = attempt(*batch.front()->act);
        return;
    }
    std::vector<Placed> placed;
    for (Request* const request : batch)
        for (const Piece& piece : request->pieces)
            if (!piece.bytes.empty()) placed.push_back({piece, request});
    if (batch.front()->in_order) {
        for (const Placed& one : placed) write_chunk({&one, 1});
        return;
    }
    std::ranges::sort(placed, {}, [](const Placed& one) { return one.piece.offset; });
    for (std::span<const Placed> rest(placed); !rest.empty();) {
        std::size_t count = 1;
        while (count < rest.size() && range_of(rest[count - 1].piece).end == rest[count].piece.offset) ++count;
        write_joined(rest.first(count));
        rest = rest.subspan(count);
    }
}

// Pieces one behind the other. Each write but the last ends at a multiple of the stripe.
void WriteCombiner::write_joined(std::span<const Placed> run) {
    std::vector<Placed> chunk;
    std::uint64_t begin = run.front().piece.offset;
    for (Placed next : run)
        while (!next.piece.bytes.empty()) {
            const std::uint64_t unit = std::max<std::uint64_t>(stripe_bytes_, 1);
            const std::uint64_t aligned = (begin + kChunkMax) / unit * unit;
            const std::uint64_t limit = aligned > begin ? aligned : begin + kChunkMax;
            const std::uint64_t fits = std::min<std::uint64_t>(limit - next.piece.offset, next.piece.bytes.size());
            chunk.push_back({{next.piece.offset, next.piece.bytes.first(fits)}, next.request});
            next.piece.offset += fits;
            next.piece.bytes = next.piece.bytes.subspan(fits);
            if (next.piece.offset < limit) continue;
            write_chunk(chunk);
            chunk.clear();
            begin = limit;
        }
    if (!chunk.empty()) write_chunk(chunk);
}

void WriteCombiner::write_chunk(std::span<const Placed> chunk) {
    const Status outcome = write_pieces(chunk);
    const bool of_one = std::ranges::all_of(chunk,
                                            [&](const Placed& one) { return one.request == chunk.front().request; });
    if (outcome) return;
    if (of_one) return keep_first(chunk.front().request->outcome, outcome);
    for (const Placed& one : chunk) keep_first(one.request->outcome, write_pieces({&one, 1}));
}

Status WriteCombiner::write_pieces(std::span<const Placed> pieces) {
    std::vector<io::Bytes> bytes;
    bytes.reserve(pieces.size());
    for (const Placed& each : pieces) bytes.push_back(each.piece.bytes);
    {
        const std::lock_guard lock(mutex_);
        ++totals_.writes;
    }
    return file_.write_gather_at(pieces.front().piece.offset, bytes);
}

}   // namespace forebay::server
