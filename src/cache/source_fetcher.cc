#include "cache/source_fetcher.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/attempt.h"
#include "cache/peer_read.h"

namespace forebay::cache {

SourceFetcher::SourceFetcher(std::shared_ptr<CachedFileState> file)
    : file_(std::move(file)), ahead_(file_->size(), file_->peers.first_byte(), file_->policy.sample_share) {}

// No node stores a young file.
Result<std::size_t> SourceFetcher::read_unstored(std::uint64_t offset, io::MutableBytes into) {
    if (!file_->peers.has_servers() || file_->replica->unusable() || file_->admission.is_young() ||
        file_->speed.is_fast())
        return read_source(offset, into);
    const ByteRange range{offset, offset + into.size()};
    const auto got = read_whole(file_->peers.servers(), range, range, into);
    return got && got.value() == into.size() ? got : read_source(offset, into);
}

Result<std::size_t> SourceFetcher::read_source(std::uint64_t offset, io::MutableBytes into) {
    const auto got = file_->source->read_at(offset, into);
    if (got) {
        file_->counters->missed_bytes.fetch_add(got.value(), std::memory_order_relaxed);
        file_->counters->fetched_bytes.fetch_add(got.value(), std::memory_order_relaxed);
        file_->speed.note_unstored(got.value());
    }
    return got;
}

Result<std::size_t> SourceFetcher::fetch(ByteRange missing, io::MutableBytes into, ReadOrigin& from) {
    const bool from_file = std::exchange(from.file, true);
    if (!file_->admission.stores()) return read_unstored(missing.begin, into);
    const std::uint64_t size = file_->size();
    const std::shared_ptr<Peers> joined = file_->peers.joined();
    Peers* const peers = file_->peers.has_servers() ? file_->peers.servers() : joined.get();
    const std::uint64_t piece = peers != nullptr ? peers->piece_bytes() : kBlockBytes;
    ByteRange whole{missing.begin / piece * piece, std::min(size, (missing.end + piece - 1) / piece * piece)};
    std::vector<Replica::Claim> claims;
    try {
        claims = claim_units(whole);
    } catch (const std::bad_alloc&) {
        return read_source(missing.begin, into);
    }
    if (claims.empty()) {
        const std::size_t hit = await_others(whole, {into.data(), missing.size()}, missing.begin, claims);
        if (hit > 0) {
            note_arrived(missing.begin, hit, from);
            from.file = from_file;
            return hit;
        }
        if (claims.empty()) return read_unstored(missing.begin, into);
    }
    whole.end = std::min(whole.end, (claims.back().unit() + 1) * kUnitBytes);
    if (!file_->budget.take(whole.size())) {
        claims.clear();
        return read_unstored(missing.begin, into);
    }
    std::optional<Fetched> fetched = begin_fetch(whole);
    if (!fetched) {
        claims.clear();
        return read_source(missing.begin, into);
    }
    const std::uint64_t to = std::min(whole.end, missing.end);
    const auto got = read_whole(peers, whole, {missing.begin, to}, fetched->bytes);
    if (!got || got.value() < fetched->bytes.size()) {
        fetched->budget.shrink(0);
        claims.clear();
        if (got) {
            file_->counters->step_aside(Aside::kChanged);
            file_->replica->make_void();
        }
        return read_source(missing.begin, into);   // fails as natively, or is shorter
    }
    std::copy_n(fetched->bytes.begin() + static_cast<std::ptrdiff_t>(missing.begin - whole.begin), to - missing.begin,
                into.begin());
    fetched->claims = std::move(claims);
    submit_store(std::move(*fetched));
    read_ahead_after_miss({missing.begin, to}, joined.get());
    if (to == missing.end) return to - missing.begin;
    const auto rest = read_unstored(to, into.subspan(to - missing.begin));
    return rest ? Result<std::size_t>(to - missing.begin + rest.value()) : rest;
}

// Memory for the bytes of `whole`, whose budget is taken. None, with the budget given back: there is no memory.
std::optional<SourceFetcher::Fetched> SourceFetcher::begin_fetch(ByteRange whole) {
    Fetched fetched;
    fetched.budget = share(whole.size());
    try {
        fetched.offset = whole.begin;
        fetched.bytes.resize(whole.size());
    } catch (const std::bad_alloc&) {
        return std::nullopt;
    }
    return fetched;
}

// Without memory nothing is stored, and the claims end here.
void SourceFetcher::submit_store(Fetched fetched) noexcept {
    (void)attempt([&] {
        auto shared = std::make_shared<Fetched>(std::move(fetched));
        (void)submit([self = shared_from_this(), shared] {
            self->store(*shared);
            return Status::ok();
        });
    });
}

void SourceFetcher::note_arrived(std::uint64_t offset, std::size_t bytes, ReadOrigin& from) noexcept {
    file_->unread.note_read({offset, offset + bytes});
    from.kept += bytes;
}

PendingBudget::Share SourceFetcher::share(std::uint64_t bytes) const noexcept {
    return {std::shared_ptr<PendingBudget>(file_, &file_->budget), bytes};
}

// Waits for the owner of the first unit of `whole`, no longer than reading the source takes. Returns the bytes from
// `offset` on that the owner has brought, up to the unit's end. None: the owner fetched another
// part, and `claims` has the unit now; or the owner was too slow, and `claims` is empty.
std::size_t SourceFetcher::await_others(ByteRange whole, io::MutableBytes into, std::uint64_t offset,
                                        std::vector<Replica::Claim>& claims) {
    const std::uint64_t wait_ns = file_->speed.patience_ns();
    const std::uint64_t unit_end = (offset / kUnitBytes + 1) * kUnitBytes;
    const io::MutableBytes first = into.first(std::min<std::uint64_t>(into.size(), unit_end - offset));
    const std::uint64_t begin_ns = file_->policy.steady_ns();
    file_->counters->waits.fetch_add(1, std::memory_order_relaxed);
    for (std::uint64_t left_ns = wait_ns;;) {
        const std::uint32_t seen = file_->replica->arrivals();
        const std::size_t hit = file_->replica->read(offset, first);
        if (hit > 0) return hit;
        (void)attempt([&] { claims = claim_units(whole); });
        if (!claims.empty() || left_ns == 0) return 0;
        file_->replica->await(seen, std::chrono::milliseconds(std::max<std::uint64_t>(1, left_ns / 1'000'000)));
        const std::uint64_t waited_ns = file_->policy.steady_ns() - begin_ns;
        left_ns = waited_ns < wait_ns && file_->replica->arrivals() != seen ? wait_ns - waited_ns : 0;
    }
}

std::vector<Replica::Claim> SourceFetcher::claim_units(ByteRange range) const {
    std::vector<Replica::Claim> claims;
    claims.reserve((range.end - 1) / kUnitBytes - range.begin / kUnitBytes + 1);
    for (std::uint64_t unit = range.begin / kUnitBytes; unit * kUnitBytes < range.end; ++unit) {
        auto claim = Replica::claim(file_->replica, unit);
        if (!claim) break;
        claims.push_back(std::move(*claim));
    }
    return claims;
}

Result<std::size_t> SourceFetcher::read_whole(Peers* peers, ByteRange whole, ByteRange asked, io::MutableBytes into) {
    const bool paced = peers != nullptr &&
                       peers != file_->peers.servers();   // only the program's thread comes here then
    const auto read_timed = [&](std::uint64_t offset, io::MutableBytes part) {
        const std::uint64_t begin_ns = file_->policy.steady_ns();
        auto got = file_->source->read_at(offset, part);
        const std::uint64_t took_ns = file_->policy.steady_ns() - begin_ns;
        file_->speed.note_request(part.size(), took_ns);
        if (paced) file_->peers.pace().note(part.size(), took_ns);
        return got;
    };
    PeerRead done{.source_bytes = whole.size()};
    Result<std::size_t> got = out_of_memory();
    if (peers == nullptr) {
        got = read_timed(whole.begin, into);
    } else {
        done = {};
        const PeerReadSource source{read_timed,
                                    [&](std::uint64_t bytes) { return paced ? file_->peers.pace().cost_ns(bytes) : 0; },
                                    file_->policy.steady_ns};
        const Status asked_peers = attempt([&] { got = read_with_peers(*peers, source, whole, asked, into, done); });
        if (!asked_peers) got = asked_peers;
        file_->counters->remote_bytes.fetch_add(done.peer_asked, std::memory_order_relaxed);
        file_->counters->remote_ns.fetch_add(done.peer_ns, std::memory_order_relaxed);
        file_->counters->late_answers.fetch_add(done.late, std::memory_order_relaxed);
    }
    if (!got || got.value() < whole.size()) return got;   // the reader reads again
    file_->counters->missed_bytes.fetch_add(asked.size() - done.peer_asked, std::memory_order_relaxed);
    file_->counters->fetched_bytes.fetch_add(done.source_bytes, std::memory_order_relaxed);
    return got;
}

void SourceFetcher::fetch_claimed(Fetched& fetched, std::uint64_t bytes) {
    fetched.bytes.resize(bytes);
    const auto got = read_whole(file_->peers.servers(), {fetched.offset, fetched.offset + bytes}, {}, fetched.bytes);
    if (!got || got.value() != bytes) return;
    file_->unread.note_fetched({fetched.offset, fetched.offset + bytes});
    store(fetched);
}

// Cancels the task if there is no thread to run it; the task then gives up its claims. Returns false in that case.
bool SourceFetcher::submit(std::function<Status()> run) {
    struct Counted {
        std::shared_ptr<TaskCount::Entry> entry;   // first
        std::function<Status()> run;
        Status operator()() const { return run(); }
    };
    const task::Submitted submitted = file_->tasks.submit(
        {.run = Counted{std::make_shared<TaskCount::Entry>(file_->task_count), std::move(run)}});
    if (submitted.task && !submitted.has_thread) return !file_->tasks.cancel(submitted.task);
    return static_cast<bool>(submitted.task);
}

// Compares the version after the bytes were read. At the open it was old enough that a change since would show.
void SourceFetcher::store(Fetched& fetched) {
    if (!file_->admission.is_stopped() && !file_->replica->unusable()) {
        const auto state = file_->source->state(io::File::Ask::kTimes);
        if (!state || !file_->version.is_source(state.value())) {
            if (state) file_->version.note_changed();
            else file_->admission.stop(Aside::kFault);
        } else {
            for (const Replica::Claim& claim : fetched.claims) {
                const Status stored = file_->replica->store(claim, fetched.offset, fetched.bytes);
                if (stored) continue;
                if (io::lacks_descriptors(stored)) break;   // not now
                file_->admission.stop(stored.code() == Code::kNoSpace ? Aside::kFull : Aside::kFault);
                break;
            }
            if (!file_->admission.is_stopped())
                file_->counters->stored_bytes.fetch_add(fetched.bytes.size(), std::memory_order_relaxed);
        }
    }
    fetched.claims.clear();
}

}   // namespace forebay::cache
