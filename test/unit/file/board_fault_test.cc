// A staging device that fails below the board: whoever finds it out is told, and so are all others at the next flush
// and the close; nobody waits for ever, and what was called well is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "support/faults.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using group::Board;
using stage::ByteClass;
using test::bytes_of;
using test::same;
using test::Scratch;
using test::TeamMember;
using test::ThreadTeam;

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kMembers = 3;
constexpr std::uint64_t kBytes = 20000;

std::filesystem::path board_in(const Scratch& scratch) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch.area()))
        if (group::log_of_board(entry.path().filename().string())) return entry.path();
    ADD_FAILURE() << "no board";
    return {};
}

TEST(BoardFault, is_noticed_by_whoever_touches_a_page_that_is_gone_and_by_nobody_else) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    const Scratch scratch;
    const auto open = [&](io::OpenMode mode) {
        return std::move(io::open_posix_directory(scratch.area()).value()->open_file("board-1", mode)).value();
    };
    const auto first = group::Board::create(open(io::OpenMode::kCreateNew), 2, 5),
               second = group::Board::open(open(io::OpenMode::kReadWrite), 2);
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(open(io::OpenMode::kReadWrite)->resize(kPage));
    first.value().header().sequence.store(9);
    EXPECT_EQ(second.value().header().sequence.load(), 9u) << "a page that is there is that of all";
    EXPECT_FALSE(first.value().lost() || second.value().lost());
    first.value().place(1, 3).store(7);
    EXPECT_EQ(first.value().place(1, 3).load(), 7u);
    EXPECT_TRUE(first.value().lost());
    EXPECT_FALSE(second.value().lost());
    EXPECT_THAT(first.value().loss().message(), testing::HasSubstr("board-1"));
    EXPECT_EQ(first.value().loss().sys_errno(), EIO);
}

enum class Moment { kBeforeWriting, kBeforeCommit, kBeforeClose };

struct Outcome {
    bool written = true;
    Status committed, closed;
    bool read_right = true;
    std::uint64_t staged = 0;
};

// The board is cut behind its first `keep` bytes at one moment. What each member found, by rank.
std::array<Outcome, kMembers> run(const Scratch& scratch, Moment moment, std::uint64_t keep) {
    std::array<Outcome, kMembers> outcomes;
    ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        Outcome& mine = outcomes[rank];
        TeamMember member(team, scratch, test::tiny_options());
        ASSERT_TRUE(member.opened()) << member.opened().message();
        const auto cut = [&](Moment now) {
            ASSERT_TRUE(team->barrier());
            if (now == moment && rank == 0)
                std::filesystem::resize_file(board_in(scratch),
                                             std::min(keep, std::filesystem::file_size(board_in(scratch))));
            ASSERT_TRUE(team->barrier());
        };
        // More than a log holds: room is wanted, and segments are used again.
        const auto write = [&](std::uint64_t round) {
            for (std::uint64_t at = 0; at < kBytes; at += 2000)
                mine.written = bool(member.write(rank * kBytes + at,
                                                 io::Bytes(bytes_of(kBytes, 10 * round + rank)).subspan(at, 2000),
                                                 at == 0 ? ByteClass::kMetadata : ByteClass::kRaw)) &&
                               mine.written;
        };
        write(1);
        cut(Moment::kBeforeWriting);
        for (std::uint64_t round = 2; round <= 6; ++round) write(round);
        std::vector<std::byte> bytes(kBytes);
        if (mine.written && member.read_into(rank * kBytes, bytes))
            mine.read_right = same(bytes, bytes_of(kBytes, 60 + rank));
        cut(Moment::kBeforeCommit);
        mine.committed = member.file().commit();
        cut(Moment::kBeforeClose);
        mine.closed = member.close();
        mine.staged = member.counters().staged;
    });
    return outcomes;
}

TEST(BoardFault, is_told_to_all_members_alike_and_what_was_called_well_is_right) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    std::uint64_t told = 0, well = 0;
    for (const Moment moment : {Moment::kBeforeWriting, Moment::kBeforeCommit, Moment::kBeforeClose}) {
        const std::uint64_t size = group::board_bytes(
            kMembers, test::tiny_options().options.size / test::tiny_options().options.segment + 2);
        for (std::uint64_t keep = 0; keep < size + kPage; keep += kPage) {
            SCOPED_TRACE(testing::Message()
                         << "moment " << static_cast<int>(moment) << ", cut to " << keep << " of " << size);
            const Scratch scratch;
            const auto outcomes = run(scratch, moment, keep);
            for (const Outcome& mine : outcomes) {
                EXPECT_EQ(bool(mine.committed), bool(outcomes[0].committed));
                EXPECT_EQ(bool(mine.closed), bool(outcomes[0].closed));
                EXPECT_TRUE(mine.read_right);
                EXPECT_GE(mine.staged, kBytes) << "what is written before the board is cut";
            }
            if (!outcomes[0].closed) {
                ++told;
                continue;
            }
            ++well;
            // A write that failed is told by the commit, and may have been made in part.
            const auto contents = scratch.contents();
            for (std::uint64_t rank = 0; rank < kMembers; ++rank) {
                if (!outcomes[rank].written) continue;
                const auto mine = bytes_of(kBytes, 60 + rank);
                ASSERT_GE(contents.size(), (rank + 1) * kBytes);
                EXPECT_TRUE(std::equal(mine.begin(), mine.end(),
                                       contents.begin() + static_cast<std::ptrdiff_t>(rank * kBytes)))
                    << "rank " << rank;
            }
            for (const Outcome& mine : outcomes)
                EXPECT_TRUE(mine.written || !outcomes[0].committed) << "a failed write was told by nothing";
        }
    }
    EXPECT_GT(told, 20u);
    EXPECT_GE(well, 3u) << "whole boards";
}

}   // namespace
}   // namespace forebay
