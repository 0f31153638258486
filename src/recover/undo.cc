#include "recover/undo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "extent/extent_map.h"

namespace forebay::recover {

namespace {

struct First {
    std::uint32_t member = 0;
    std::uint64_t phase_end = 0, at = 0;
    [[nodiscard]] First advanced(std::uint64_t bytes) const noexcept { return {member, phase_end, at + bytes}; }
};

struct Candidate {
    std::uint32_t member;
    const undo::UndoView::Record* record;
};

// Phases are even between meetings and odd within (undo/undo_journal.h). A rank that left a meeting before the other
// reached it is later. A rank within a meeting may have stayed until the next one began.
bool surely_later(std::uint64_t phase, std::uint64_t than_end) noexcept { return phase >= than_end + than_end % 2 + 2; }

Result<bool> same(io::File& one, std::uint64_t at, io::File& other, std::uint64_t other_at, std::uint64_t bytes) {
    std::vector<std::byte> first(bytes), second(bytes);
    const auto got = one.read_at(at, first), got_second = other.read_at(other_at, second);
    if (!got) return got.status();
    if (!got_second) return got_second.status();
    return got.value() == bytes && got_second.value() == bytes && first == second;
}

// The last commit that a rank has decided, or the fact that the file was closed.
Result<Undoing> find_commit(std::span<const undo::UndoView> views, std::span<io::File* const> files) {
    Undoing undoing;
    const undo::UndoHeader& header = views.front().header;
    for (std::size_t i = 0; i < views.size(); ++i) {
        const undo::UndoView& view = views[i];
        if (view.header.team != header.team || view.header.members != views.size() || view.header.member != i)
            return Status(Code::kCorrupt,
                          fmt::format("{}: the undo journal of another file or rank", files[i]->name()));
        if (view.state.decided > undoing.commit || i == 0) {
            undoing.commit = view.state.decided;
            undoing.picture.size = view.state.decided_size;
            undoing.picture.commit_time_ns = view.state.decided_ns;
        }
        undoing.nothing = undoing.nothing || view.state.closed;
    }
    undoing.picture.commit_sequence = undoing.commit;
    return undoing;
}

// The records preserved after the commit, by phase. Adds to `undoing` the bytes without a copy.
Result<std::vector<Candidate>> find_uncommitted(std::span<const undo::UndoView> views, std::span<io::File* const> files,
                                                Undoing& undoing) {
    std::vector<Candidate> candidates;
    for (std::uint32_t i = 0; i < views.size(); ++i) {
        const undo::UndoState& state = views[i].state;
        // A commit is decided once all have prepared it.
        if (state.prepared < undoing.commit ||
            (state.decided == undoing.commit && state.decided_size != undoing.picture.size))
            return Status(Code::kCorrupt,
                          fmt::format("{}: it does not know of commit {}", files[i]->name(), undoing.commit));
        undoing.given_up += state.given_up;
        for (const undo::UndoView::Record& record : views[i].records)
            if (record.record.epoch > undoing.commit) candidates.push_back({i, &record});
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& one, const Candidate& other) {
        return one.record->record.phase < other.record->record.phase;
    });
    return candidates;
}

// Adds the bytes that no earlier candidate preserved. kCorrupt: another rank preserved different bytes in this phase.
Status add_first(ExtentMap<First>& first, const Candidate& candidate, std::span<io::File* const> files) {
    const std::uint32_t member = candidate.member;
    const undo::UndoView::Record& found = *candidate.record;
    const undo::UndoRecord& record = found.record;
    std::vector<ByteRange> gaps;
    Status failure;
    first.for_each_and_gap(
        record.range,
        [&](ByteRange range, const First& there) {
            if (!failure || there.member == member || surely_later(record.phase, there.phase_end)) return;
            const auto equal = same(*files[there.member], there.at, *files[member],
                                    found.payload_at + (range.begin - record.range.begin), range.size());
            if (!equal) failure = equal.status();
            else if (!equal.value())
                failure = Status(Code::kCorrupt,
                                 fmt::format("ranks {} and {} overwrote bytes {} to {} without a flush in between; "
                                             "the bytes before are unknown",
                                             there.member, member, range.begin, range.end));
        },
        [&](ByteRange gap) { gaps.push_back(gap); });
    FOREBAY_TRY(failure);
    for (const ByteRange gap : gaps)
        first.insert(gap, First{member, record.phase_end, found.payload_at + (gap.begin - record.range.begin)},
                     [](ByteRange, const First&) noexcept {});
    return Status::ok();
}

}   // namespace

Result<Undoing> undo(std::span<const undo::UndoView> views, std::span<io::File* const> files) {
    auto undoing = find_commit(views, files);
    if (!undoing || undoing.value().nothing) return undoing;
    const auto candidates = find_uncommitted(views, files, undoing.value());
    if (!candidates) return candidates.status();
    ExtentMap<First> first;
    for (const Candidate& candidate : candidates.value()) FOREBAY_TRY(add_first(first, candidate, files));
    Picture& picture = undoing.value().picture;
    first.for_each({0, *picture.size}, [&](ByteRange range, const First& from) {
        picture.newest.insert(range, Newest{from.member, true, from.at}, [](ByteRange, const Newest&) noexcept {});
        picture.bytes += range.size();
    });
    return undoing;
}

}   // namespace forebay::recover
