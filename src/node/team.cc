#include "node/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <numeric>
#include <string>

#include "base/attempt.h"

namespace forebay::node {

namespace {

// A failure as a word, which is not 0: code, errno, and the length of its text.
constexpr unsigned kErrnoShift = 8, kLengthShift = 32;
constexpr std::uint64_t kErrnoMask = (std::uint64_t{1} << (kLengthShift - kErrnoShift)) - 1;

std::uint64_t to_word(const Status& failure) noexcept {
    const auto length = std::min<std::uint64_t>(failure.message().size(), UINT32_MAX);
    return static_cast<std::uint64_t>(failure.code()) | (static_cast<std::uint64_t>(failure.sys_errno()) & kErrnoMask) << kErrnoShift |
           length << kLengthShift;
}

// Texts go in pieces, so that nobody needs memory to take part.
using Piece = std::array<std::byte, 1024>;

}   // namespace

Status Team::agree(const Status& mine) noexcept {
    const Status agreed = attempt([&]() -> Status {
        const auto words = exchange(mine ? 0 : to_word(mine));
        if (!words) return mine ? words.status() : mine;
        const auto failed = std::find_if(words.value().begin(), words.value().end(), [](std::uint64_t word) { return word != 0; });
        if (failed == words.value().end()) return Status::ok();
        const int member = static_cast<int>(failed - words.value().begin());
        return member == rank() ? tell(mine) : hear(member, *failed);
    });
    return agreed;
}

Status Team::tell(const Status& mine) {
    const auto text = std::as_bytes(std::span(mine.message()));
    for (std::size_t at = 0; at < text.size();) {
        Piece piece;
        const std::size_t count = std::min(piece.size(), text.size() - at);
        std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(at), count, piece.begin());
        FOREBAY_TRY(broadcast(rank(), std::span(piece).first(count)));
        at += count;
    }
    return copy_of(mine, "failed");
}

Status Team::hear(int from, std::uint64_t word) {
    const auto code = static_cast<Code>(word & UINT8_MAX);
    const int sys_errno = static_cast<int>(word >> kErrnoShift & kErrnoMask);
    std::string text;
    bool whole = true;
    for (std::uint64_t left = word >> kLengthShift; left > 0;) {
        Piece piece;
        const auto bytes = std::span(piece).first(std::min<std::uint64_t>(piece.size(), left));
        FOREBAY_TRY(broadcast(from, bytes));
        whole = whole && attempt([&] {
            text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        });
        left -= bytes.size();
    }
    Status heard(code, "a rank failed", sys_errno);
    if (whole)
        (void)attempt([&] {
            heard = Status(code, text, sys_errno).with_context(fmt::format("rank {}", from));
        });
    return heard;
}

Result<Team::Gathered> Team::gather(std::span<const std::byte> mine) {
    const auto lengths = exchange(mine.size());
    if (!lengths) return lengths.status();
    Gathered gathered;
    std::vector<std::uint64_t> counts;
    std::vector<std::byte> all;
    const Status ready = attempt([&]() -> Status {
        counts.assign(lengths.value().begin(), lengths.value().end());
        // MPI counts with int.
        const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
        if (total > INT_MAX) return {Code::kInternal, "the members of a team have too much to tell each other"};
        all.resize(total);
        for (const std::uint64_t count : counts) gathered.emplace_back(count);
        return Status::ok();
    });
    FOREBAY_TRY(agree(ready));
    if (all.empty()) return gathered;
    FOREBAY_TRY(gather_into(mine, counts, all));
    auto from = all.begin();
    for (auto& one : gathered) {
        const auto to = from + static_cast<std::ptrdiff_t>(one.size());
        std::copy(from, to, one.begin());
        from = to;
    }
    return gathered;
}

}   // namespace forebay::node
