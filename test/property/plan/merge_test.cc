// Plans of random extents: every byte comes out once, from where it lay, in writes that keep to the policy.
#include "plan/merge.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "extent/stripe.h"

namespace forebay::plan {
namespace {

// Disjoint, ascending; one byte of address space stands for one byte in a log.
struct Input {
    std::vector<std::byte> store = std::vector<std::byte>(1 << 16);
    std::vector<Piece> pieces;
};

Input arbitrary_input() {
    Input input;
    std::uint64_t at = *rc::gen::inRange<std::uint64_t>(0, 5000);
    const auto count = *rc::gen::inRange(0, 60);
    for (int i = 0; i < count; ++i) {
        at += *rc::gen::weightedElement<std::uint64_t>({{4, 0}, {1, 1}, {1, 700}});
        const auto size = *rc::gen::weightedOneOf<std::uint64_t>({{3, rc::gen::inRange<std::uint64_t>(1, 40)},
                                                                  {1, rc::gen::inRange<std::uint64_t>(1, 3000)}});
        Piece piece{{at, at + size}, nullptr, static_cast<std::uint64_t>(i + 1), Keeper::kNone};
        if (*rc::gen::weightedElement<bool>({{5, true}, {1, false}})) {
            piece.bytes = input.store.data() + *rc::gen::inRange<std::size_t>(0, input.store.size() - size);
            piece.keeper = Keeper{*rc::gen::inRange(1u, 4u)};
        }
        input.pieces.push_back(piece);
        at += size;
    }
    return input;
}

RC_GTEST_PROP(MergeProperty, every_byte_comes_out_once_from_where_it_lay_within_the_policy, ()) {
    const Input input = arbitrary_input();
    Policy policy;
    policy.stripe = *rc::gen::inRange<std::uint64_t>(1, 1500);
    policy.write_max = *rc::gen::inRange<std::uint64_t>(1, 4000);
    policy.pieces_max = *rc::gen::inRange<std::size_t>(1, 20);
    const bool growing = !input.pieces.empty() && *rc::gen::arbitrary<bool>();
    if (growing) policy.growing_at = input.pieces.back().range.end;

    const auto writes = merge(input.pieces, policy);

    // Where the plan ends: before the last stripe of a growing run, which is the last one.
    std::uint64_t until = kOffsetMax;
    if (growing) {
        std::uint64_t run_begin = input.pieces.front().range.begin, run_end = run_begin;
        for (const Piece& piece : input.pieces) {
            if (piece.range.begin != run_end) run_begin = piece.range.begin;
            run_end = piece.range.end;
        }
        until = std::max(run_begin, align_down(policy.growing_at, policy.stripe));
    }
    std::size_t from = 0;
    std::uint64_t last_end = 0;
    std::uint64_t at = input.pieces.empty() ? 0 : input.pieces.front().range.begin;
    for (std::size_t w = 0; w < writes.size(); ++w) {
        const TargetWrite& write = writes[w];
        RC_ASSERT(!write.range.empty());
        RC_ASSERT(write.range.begin >= last_end);
        RC_ASSERT(write.range.size() <= policy.write_max);
        RC_ASSERT(!write.pieces.empty());
        RC_ASSERT(write.pieces.size() <= policy.pieces_max);
        RC_ASSERT(write.pieces.front().range.begin == write.range.begin);
        RC_ASSERT(write.pieces.back().range.end == write.range.end);
        last_end = write.range.end;
        for (const Piece& part : write.pieces) {
            RC_ASSERT(!part.range.empty());
            const Piece& source = input.pieces.at(from);
            if (at < source.range.begin) at = source.range.begin;   // a gap
            RC_ASSERT(part.range.begin == at);
            RC_ASSERT(source.range.contains(part.range));
            const std::byte* const lay = source.bytes == nullptr ? nullptr : source.bytes + (at - source.range.begin);
            RC_ASSERT((part.bytes == lay));
            RC_ASSERT(part.sequence == source.sequence);
            RC_ASSERT((part.keeper == source.keeper));
            at = part.range.end;
            if (at == source.range.end) ++from;
        }
        // Cut short of what follows it only for a reason.
        const bool goes_on = w + 1 < writes.size() && writes[w + 1].range.begin == write.range.end;
        if (goes_on && write.range.end % policy.stripe != 0)
            RC_ASSERT(write.pieces.size() == policy.pieces_max ||
                      align_down(write.range.begin + policy.write_max, policy.stripe) <= write.range.begin);
    }
    // What is left is exactly the growing end, if there is one.
    for (; from < input.pieces.size(); ++from) {
        const ByteRange left{std::max(at, input.pieces[from].range.begin), input.pieces[from].range.end};
        RC_ASSERT(growing);
        RC_ASSERT(left.begin >= until);
        RC_ASSERT(left.begin == std::max(until, input.pieces[from].range.begin));
        at = left.end;
    }
    if (growing) RC_ASSERT(last_end <= until);
}

}   // namespace
}   // namespace forebay::plan
