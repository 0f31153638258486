#include "file/on_several_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>

#include "base/attempt.h"

namespace forebay::file {

namespace {

// The time between two reads of the counters of a node that has not drained yet.
constexpr std::chrono::milliseconds kAskAgain{1};

}   // namespace

Status OnSeveralNodes::join(const Node& node) {
    FOREBAY_TRY(Grouped::join(node));
    return expose_to_others(node.all);
}

Status OnSeveralNodes::expose_to_others(const std::vector<Introduction>& all) {
    const Status known = attempt([&] {
        std::set<std::string_view> seen{all[static_cast<std::size_t>(state_.team->rank())].node};
        for (std::size_t rank = 0; rank < all.size(); ++rank)
            if (seen.insert(all[rank].node).second) other_drainers_.push_back(static_cast<int>(rank));
    });
    std::span<std::byte> mine;
    if (drains_) mine = std::as_writable_bytes(std::span(&group_->exposed(), 1));
    const Status exposed = attempt([&] {
        auto window = state_.team->expose(mine);
        if (window) window_ = std::move(window).value();
        return window.status();
    });
    return state_.team->agree(known ? exposed : known);
}

// Returns after every other node has drained the bytes that it had staged for these places when the call began.
Status OnSeveralNodes::await_others(std::span<const ByteRange> places) {
    const auto region_of = [](std::uint64_t offset) { return offset / group::Exposed::kRegionBytes; };
    std::uint64_t first = UINT64_MAX, last = 0;
    for (const ByteRange& place : places) {
        first = std::min(first, region_of(place.begin));
        last = std::max(last, region_of(place.end - 1));
    }
    if (first > last) return Status::ok();
    const std::uint64_t count = std::min(last - first + 1, group::Exposed::kMarks);
    std::vector<std::uint64_t> marks(count);
    for (const int drainer : other_drainers_) {
        // The marks are a ring, so a range has at most two pieces.
        const std::uint64_t begin = first % group::Exposed::kMarks,
                            front = std::min(count, group::Exposed::kMarks - begin);
        const auto bytes = std::as_writable_bytes(std::span(marks));
        const auto offset_of = [](std::uint64_t mark) {
            return offsetof(group::Exposed, marks) + mark * sizeof(std::uint64_t);
        };
        FOREBAY_TRY(window_->read(drainer, offset_of(begin), bytes.first(front * sizeof(std::uint64_t))));
        if (front < count)
            FOREBAY_TRY(window_->read(drainer, offset_of(0), bytes.subspan(front * sizeof(std::uint64_t))));
        std::uint64_t needed = 0;
        for (const ByteRange& place : places) {
            const std::uint64_t from = region_of(place.begin), to = region_of(place.end - 1);
            for (std::uint64_t region = from; region <= to && region - from < count; ++region)
                needed = std::max(needed, marks[(region - first) % count]);
        }
        for (std::uint64_t clean = 0; needed > 0;) {
            FOREBAY_TRY(window_->read(drainer, offsetof(group::Exposed, clean),
                                      std::as_writable_bytes(std::span(&clean, 1))));
            if (clean == group::Exposed::kCannotDrain)
                return {
                    Code::kUnavailable,
                    fmt::format("read {}: rank {}, which drains for another node, cannot write the bytes staged there",
                                state_.file->path(), drainer)};
            if (clean >= needed) break;
            // Another node cannot wake this process. Waits on a word that is never raised, to pause.
            static constexpr io::SharedWord kNobodyRaises{0};
            io::wait_while(kNobodyRaises, 0, kAskAgain);
        }
    }
    return Status::ok();
}

Status OnSeveralNodes::write_parts(std::span<const Part> parts, stage::ByteClass byte_class, bool together) {
    return together ? state_.file->write_bypassing(parts) : state_.file->write(parts, byte_class);
}

Status OnSeveralNodes::read(std::span<const ReadPart> parts) {
    // Asks once for all parts: each question is a message to every other node.
    std::vector<ByteRange> places;
    places.reserve(parts.size());
    for (const auto& part : parts)
        if (!part.into.empty()) places.push_back({part.offset, part.offset + part.into.size()});
    // A forked child has no part in MPI.
    if (!state_.engine->inherited()) FOREBAY_TRY(await_others(places));
    return state_.file->read(parts);
}

// No node has staged bytes after the settle, so the target alone is cut or extended.
Status OnSeveralNodes::truncate(std::uint64_t size) {
    FOREBAY_TRY(settle());
    const Status resized = attempt([&] {
        return state_.team->rank() == 0 ? state_.file->membership().resize_beside(size) : Status::ok();
    });
    if (!resized && state_.file->state().outflow.state.facts.lost() && state_.incomplete.is_ok())
        state_.incomplete = copy_of(resized, "resize failed");
    FOREBAY_TRY(agree(resized));
    const Status noted = attempt([&] { return state_.file->membership().note_size(size); });
    if (drains_) group_->marked();
    return agree(noted);
}

Status OnSeveralNodes::commit() {
    if (journal_ == nullptr) return drain_for_others(Untold::kTell);
    FOREBAY_TRY(agree(state_.take_deferred_error()));
    return commit_consistently();
}

// A client may keep written bytes, and other nodes then read old ones. Natively MPI_File_sync sends them.
Status OnSeveralNodes::drain_for_others(Untold untold) {
    return by_drainers([&] { return state_.file->drain(); }, untold,
                       [&] { return state_.file->membership().confirm_own_writes(); });
}

Status OnSeveralNodes::settle() {
    return by_drainers([&] { return state_.file->drain(); });
}

Status OnSeveralNodes::await_drained() {
    if (state_.engine->inherited()) return state_.file->drain();
    FOREBAY_TRY(attempt([&] { return drains_ ? state_.file->drain() : group_->log().await_drained(); }));
    const ByteRange everything{0, group::Exposed::kMarks * group::Exposed::kRegionBytes};
    return attempt([&] { return await_others({&everything, 1}); });
}

// Other nodes may have extended the file, so its size is the largest that any node has written.
Status OnSeveralNodes::drain_unclosed() {
    FOREBAY_TRY(state_.file->drain());
    return state_.file->membership().finish_followed(Status::ok());
}

Status OnSeveralNodes::commit_before_close() {
    Status committed = journal_ != nullptr ? agree(state_.incomplete) : Status::ok();
    if (journal_ != nullptr && committed) committed = agree(attempt([&] { return commit_consistently(); }));
    window_.reset();
    return committed;
}

Status OnSeveralNodes::give_back(const Status& outcome) {
    if (outcome && journal_ != nullptr) (void)end_consistency();
    return Grouped::give_back(outcome);
}

Status OnSeveralNodes::end_group() {
    const Status ended = journal_ != nullptr ? end_consistency() : Status::ok();
    window_.reset();
    return ended;
}

}   // namespace forebay::file
