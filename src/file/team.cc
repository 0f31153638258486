#include "file/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <numeric>
#include <string>

#include "base/attempt.h"

namespace forebay::file {

namespace {

// A failure as a word: code, errno, length of its text, and the bit kFailure.
constexpr unsigned kErrnoShift = 8, kLengthShift = 32;
constexpr std::uint64_t kErrnoMask = (std::uint64_t{1} << (kLengthShift - kErrnoShift)) - 1;
constexpr std::uint64_t kFailure = std::uint64_t{1} << 63;
constexpr std::uint64_t kLengthMax = INT32_MAX;

std::uint64_t length_in(std::uint64_t word) noexcept { return (word & ~kFailure) >> kLengthShift; }

std::uint64_t to_word(const Status& failure) noexcept {
    const auto length = std::min<std::uint64_t>(failure.message().size(), kLengthMax);
    return static_cast<std::uint64_t>(failure.code()) |
           (static_cast<std::uint64_t>(failure.sys_errno()) & kErrnoMask) << kErrnoShift | length << kLengthShift |
           kFailure;
}

// A text travels in pieces, so that a member needs no memory to take part.
using Piece = std::array<std::byte, 1024>;

}   // namespace

Status Team::agree(const Status& mine) noexcept {
    Words unused;
    return agree(mine, 0, unused);
}

Result<Team::Words> Team::agree(const Status& mine, std::uint64_t word) noexcept {
    Words told;
    if (Status agreed = agree(mine, word, told); !agreed) return agreed;
    return told;
}

Status Team::agree(const Status& mine, std::uint64_t word, Words& told) noexcept {
    return attempt([&]() -> Status {
        const auto words = exchange(mine ? word : to_word(mine));
        if (!words) return mine ? words.status() : mine;
        told = words.value();
        const auto failed = std::find_if(told.begin(), told.end(),
                                         [](std::uint64_t one) { return (one & kFailure) != 0; });
        if (failed == told.end()) return Status::ok();
        const int member = static_cast<int>(failed - told.begin());
        return member == rank() ? tell(mine) : hear(member, *failed);
    });
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
    for (std::uint64_t left = length_in(word); left > 0;) {
        Piece piece;
        const auto bytes = std::span(piece).first(std::min<std::uint64_t>(piece.size(), left));
        FOREBAY_TRY(broadcast(from, bytes));
        whole = whole && attempt([&] { text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); });
        left -= bytes.size();
    }
    Status heard(code, "a rank failed", sys_errno);
    if (whole) (void)attempt([&] { heard = Status(code, text, sys_errno).with_context(fmt::format("rank {}", from)); });
    return heard;
}

Result<Gathered> Team::gather(const Status& ready, std::span<const std::byte> mine) {
    Gathered gathered;
    const auto members = static_cast<std::size_t>(size());
    const Status prepared = !ready ? copy_of(ready, "not ready") : attempt([&] {
        gathered.ends_.resize(members);
        gathered.bytes_.reserve(members * kGatheredAhead);
    });
    Words lengths;
    if (Status agreed = agree(prepared, mine.size(), lengths); !agreed) return agreed;
    std::partial_sum(lengths.begin(), lengths.end(), gathered.ends_.begin());
    const std::size_t total = gathered.ends_.back();
    // MPI counts with int. All members see the same total here and below.
    if (total > INT_MAX) return Status(Code::kInternal, "the ranks exchange more than 2 GiB in one step");
    if (total > members * kGatheredAhead) FOREBAY_TRY(agree(attempt([&] { gathered.bytes_.reserve(total); })));
    gathered.bytes_.resize(total);
    if (total > 0) FOREBAY_TRY(gather_into(mine, gathered.ends_, gathered.bytes_));
    return gathered;
}

}   // namespace forebay::file
