// Random insertions and removals on an extent map against an array with one entry per byte.
#include "extent/extent_map.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "extent/stripe.h"

namespace forebay {
namespace {

constexpr std::uint64_t kSpace = 256;

// Byte `at` of the extent inserted as number `insertion`.
struct Origin {
    std::uint64_t insertion = 0, at = 0;
    [[nodiscard]] Origin advanced(std::uint64_t bytes) const noexcept { return {insertion, at + bytes}; }
    friend bool operator==(const Origin&, const Origin&) = default;
};
constexpr Origin kNone{};   // insertions count from 1

using Bytes = std::vector<Origin>;

enum class Change { kInsert, kErase, kEraseIf };

void put(Bytes& bytes, ByteRange range, const Origin& origin) {
    for (std::uint64_t i = range.begin; i < range.end; ++i) bytes[i] = origin.advanced(i - range.begin);
}

RC_GTEST_PROP(ExtentMapProperty, equals_an_array_of_bytes_and_accounts_for_every_one, ()) {
    ExtentMap<Origin, 4> map;   // small leaves: they split and join often
    Bytes expected(kSpace, kNone);
    std::uint64_t number = 0, held = 0;
    const auto steps = *rc::gen::inRange(1, 120);
    for (int step = 0; step < steps; ++step) {
        const auto begin = *rc::gen::inRange<std::uint64_t>(0, kSpace);
        const bool small = *rc::gen::weightedElement<bool>({{7, true}, {1, false}});   // so that there are many
        const std::uint64_t size_max = small ? std::min<std::uint64_t>(4, kSpace - begin) : kSpace - begin;
        const ByteRange range{begin, begin + *rc::gen::inRange<std::uint64_t>(0, size_max + 1)};
        const Change change = *rc::gen::weightedElement<Change>(
            {{6, Change::kInsert}, {1, Change::kErase}, {1, Change::kEraseIf}});
        const auto odd = *rc::gen::inRange<std::uint64_t>(0, 2);

        // What is displaced, byte for byte, is what was there.
        Bytes lost(kSpace, kNone);
        std::uint64_t lost_bytes = 0, last_end = 0;
        const auto displaced = [&](ByteRange piece, const Origin& origin) {
            RC_ASSERT(!piece.empty());
            RC_ASSERT(range.contains(piece));
            RC_ASSERT(piece.begin >= last_end);
            last_end = piece.end;
            put(lost, piece, origin);
            lost_bytes += piece.size();
        };
        const auto goes = [&](const Origin& origin) {
            return origin != kNone && (change != Change::kEraseIf || origin.insertion % 2 == odd);
        };
        switch (change) {
            case Change::kInsert: map.insert(range, Origin{++number, 0}, displaced); break;
            case Change::kErase: map.erase(range, displaced); break;
            case Change::kEraseIf: {
                std::uint64_t asked_end = range.begin;
                const auto gone = [&](ByteRange piece, const Origin& origin) {
                    RC_ASSERT(piece.begin >= asked_end && piece.end <= range.end && !piece.empty());
                    RC_ASSERT(expected[piece.begin] == origin);
                    asked_end = piece.end;
                    return goes(origin);
                };
                map.erase_if(range, gone, displaced);
            }
        }
        for (std::uint64_t i = 0; i < kSpace; ++i)
            RC_ASSERT(lost[i] == (i >= range.begin && i < range.end && goes(expected[i]) ? expected[i] : kNone));
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
            if (change == Change::kInsert) expected[i] = Origin{number, i - range.begin};
            else if (goes(expected[i])) expected[i] = kNone;
        }
        held = held - lost_bytes + (change == Change::kInsert ? range.size() : 0);

        // Extents and gaps together tell the whole content of any range, in order, without a hole.
        const auto from = *rc::gen::inRange<std::uint64_t>(0, kSpace);
        for (const ByteRange asked : {ByteRange{0, kSpace}, ByteRange{from, kSpace}, ByteRange{0, from}}) {
            std::uint64_t at = asked.begin, covered = 0;
            const auto check = [&](ByteRange piece, const Origin* origin) {
                RC_ASSERT(piece.begin == at);
                RC_ASSERT(!piece.empty());
                for (std::uint64_t i = piece.begin; i < piece.end; ++i)
                    RC_ASSERT(expected[i] == (origin == nullptr ? kNone : origin->advanced(i - piece.begin)));
                at = piece.end;
                if (origin != nullptr) covered += piece.size();
            };
            map.for_each_and_gap(
                asked, [&](ByteRange piece, const Origin& origin) { check(piece, &origin); },
                [&](ByteRange gap) { check(gap, nullptr); });
            RC_ASSERT(at == std::max(asked.end, asked.begin));
            RC_ASSERT(map.overlaps(asked) == (covered > 0));
            if (asked.size() == kSpace) RC_ASSERT(covered == held);
        }

        // A walk shows whole extents, from the one that ends beyond the offset to the last.
        std::uint64_t walked = 0, walked_end = 0, first_end = 0;
        map.walk_from(from, [&](ByteRange piece, const Origin& origin) {
            RC_ASSERT(piece.begin >= walked_end);
            for (std::uint64_t i = piece.begin; i < piece.end; ++i)
                RC_ASSERT(expected[i] == origin.advanced(i - piece.begin));
            if (walked == 0) first_end = piece.end;
            walked += piece.end - std::max(piece.begin, std::min(from, piece.end));
            walked_end = piece.end;
            return true;
        });
        RC_ASSERT(walked == 0 || first_end > from);
        RC_ASSERT(walked == static_cast<std::uint64_t>(
                                std::count_if(expected.begin() + static_cast<std::ptrdiff_t>(from), expected.end(),
                                              [](const Origin& origin) { return origin != kNone; })));
        RC_ASSERT(map.empty() == (held == 0));
    }
}

RC_GTEST_PROP(StripeProperty, alignment_brackets_the_offset, (std::uint64_t offset)) {
    const auto stripe = *rc::gen::inRange<std::uint64_t>(1, 5000);
    const std::uint64_t down = align_down(offset, stripe), up = align_up(offset, stripe);
    RC_ASSERT(down % stripe == 0u);
    RC_ASSERT(down <= offset);
    RC_ASSERT(offset - down < stripe);
    RC_ASSERT(up >= offset);
    RC_ASSERT(up == kOffsetMax || (up % stripe == 0u && up - offset < stripe));
}

RC_GTEST_PROP(StripeProperty, a_cut_makes_progress_within_reach_and_prefers_boundaries, ()) {
    const auto begin = *rc::gen::inRange<std::uint64_t>(0, 100000);
    const ByteRange range{begin, begin + *rc::gen::inRange<std::uint64_t>(1, 100000)};
    const auto stripe = *rc::gen::inRange<std::uint64_t>(1, 3000);
    const auto write_max = *rc::gen::inRange<std::uint64_t>(1, 6000);
    const std::uint64_t end = cut(range, stripe, write_max);
    RC_ASSERT(end > range.begin);
    RC_ASSERT(end <= range.end);
    RC_ASSERT(end - range.begin <= write_max);
    if (end < range.end && end % stripe != 0)
        RC_ASSERT(align_up(range.begin + 1, stripe) > range.begin + write_max);   // none within reach
}

}   // namespace
}   // namespace forebay
