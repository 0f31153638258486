// Random programs of members on several nodes with nodes=consistent, run to a random point: from what is there then,
// recovery makes the file as it was at the last commit. Without the option everything is as before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <set>

#include "support/seeds.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::bytes_of;
using test::same;

constexpr std::uint64_t kSpace = 200 << 10;
constexpr int kMembers = 4;

LoadedOptions options_of(int rank, SeveralNodes nodes = SeveralNodes::kConsistent) {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 256 << 10;
    loaded.options.segment = 16 << 10;
    loaded.options.stripe = 4 << 10;
    loaded.options.write_max = 16 << 10;
    loaded.options.node = rank < kMembers / 2 ? "a" : "b";
    loaded.options.nodes = nodes;
    return loaded;
}

bool keeps_journals(const test::Scratch& scratch) {
    for (const std::string& name : scratch.left()) {
        const auto files = std::move(io::open_posix_directory(scratch.area() + "/" + name)).value()->list().value();
        for (const std::string& file : files)
            if (undo::log_of_undo(file)) return true;
    }
    return false;
}

// What all of them know: each writes strips of its own until the next collective call.
struct Round {
    struct Write {
        std::uint64_t offset, seed;
        std::size_t size;
        ByteClass byte_class;
        bool together;
    };
    std::vector<std::vector<Write>> writes{kMembers};
    enum class Collective { kNothing, kSettle, kTruncate, kCommit } collective = Collective::kNothing;
    std::uint64_t size = 0;
};

std::vector<Round> make_program(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    std::vector<Round> rounds(3 + below(15));
    for (Round& round : rounds) {
        const std::uint64_t width = 1 + below(9000), shift = below(kMembers);
        // What is staged for a place is never written beside the log before all have met.
        const ByteClass byte_class = below(3) == 0 ? ByteClass::kMetadata : ByteClass::kRaw;
        const bool together = below(4) == 0;
        for (std::uint64_t member = 0; member < kMembers; ++member)
            for (std::uint64_t count = below(7); count > 0; --count) {
                const std::uint64_t strip = below(kSpace / width / kMembers + 1) * kMembers +
                                            (member + shift) % kMembers,
                                    begin = below(width);
                round.writes[member].push_back({strip * width + begin, random(), 1 + below(width - begin), byte_class,
                                                together});
            }
        const std::uint64_t choice = below(6);
        round.collective = choice == 0  ? Round::Collective::kTruncate
                           : choice < 3 ? Round::Collective::kCommit
                                        : Round::Collective::kSettle;
        round.size = below(kSpace);
    }
    return rounds;
}

TEST(SeveralConsistentNodes, come_back_to_their_last_commit_from_any_point_and_lose_nothing_otherwise) {
    std::uint64_t undone = 0, tried = 0;
    for (const std::uint64_t seed :
         test::seeds("come_back_to_their_last_commit_from_any_point_and_lose_nothing_otherwise", 40, {1, 2, 3})) {
        if (HasFailure()) break;
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const auto rounds = make_program(seed);
        const auto before = bytes_of(seed % 41 * 1000, seed);
        test::Scratch scratch(before);
        test::PlainBytes final{before};
        std::mutex mutex;
        test::ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
            const int rank = team->rank();
            test::TeamMember member(team, scratch, options_of(rank));
            ASSERT_TRUE(member.opened()) << member.opened().message();
            ASSERT_TRUE(member.file().keeps_journal());
            test::PlainBytes now{before}, committed{before};
            for (std::size_t i = 0; i < rounds.size(); ++i) {
                const Round& round = rounds[i];
                for (const auto& write : round.writes[static_cast<std::size_t>(rank)]) {
                    const auto bytes = bytes_of(write.size, write.seed);
                    const stage::StagedFile::Part part{write.offset, bytes};
                    file::SharedFile& file = member.file();
                    ASSERT_TRUE(write.together ? file.write_together({&part, 1}, write.byte_class)
                                               : file.write({&part, 1}, write.byte_class));
                }
                for (const auto& writes : round.writes)
                    for (const auto& write : writes) now.write(write.offset, bytes_of(write.size, write.seed));
                ASSERT_TRUE(member.file().meet());
                // All are here; the drain goes on. What the target has now is in the journals that are copied after it.
                if (rank == 0 && (i + seed) % 3 == 0) {
                    const auto torn = scratch.contents();
                    test::Crash crash(
                        *std::move(io::open_posix_directory(scratch.area())).value(), [&] { return torn; },
                        io::identify(scratch.target()).value());
                    const auto report = crash.recover();
                    ASSERT_TRUE(report);
                    ASSERT_EQ(report.value().files.size(), 1u);
                    ASSERT_TRUE(report.value().all_well()) << report.value().files.front().status.message();
                    ASSERT_TRUE(same(crash.contents(), committed.content)) << "round " << i;
                    ASSERT_THAT(crash.left(), testing::IsEmpty());
                    if (seed <= test::kFixedSeedMax) undone += same(torn, committed.content) ? 0 : 1;
                    if (seed <= test::kFixedSeedMax) ++tried;
                }
                ASSERT_TRUE(member.file().meet());
                switch (round.collective) {
                    case Round::Collective::kNothing: break;
                    case Round::Collective::kSettle: ASSERT_TRUE(member.file().settle()); break;
                    case Round::Collective::kTruncate:
                        ASSERT_TRUE(member.file().truncate(round.size));
                        now.content.resize(round.size);
                        break;
                    case Round::Collective::kCommit:
                        ASSERT_TRUE(member.file().commit());
                        committed = now;
                        break;
                }
                // Nobody overwrites what another node has staged without a flush in between.
                ASSERT_TRUE(member.file().settle());
            }
            ASSERT_TRUE(same(member.read(0, now.content.size()), now.content));
            ASSERT_TRUE(member.file().meet());
            const Status closed = member.close();
            ASSERT_TRUE(closed) << closed.message();
            EXPECT_EQ(member.counters().guarantee_given_up, 0u);
            const std::lock_guard lock(mutex);
            final = now;
        });
        ASSERT_TRUE(same(scratch.contents(), final.content));
        ASSERT_TRUE(scratch.left().empty()) << "journals and logs are gone";
    }
    EXPECT_GT(tried, 0u);
    EXPECT_GT(undone, 0u) << "there was something to undo";
}

TEST(SeveralConsistentNodes, keep_no_journal_unless_every_member_has_the_option) {
    for (const bool some : {false, true}) {
        test::Scratch scratch(bytes_of(1000, 1));
        test::ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
            const int rank = team->rank();
            test::TeamMember member(
                team, scratch, options_of(rank, some && rank > 0 ? SeveralNodes::kConsistent : SeveralNodes::kFast));
            ASSERT_TRUE(member.opened()) << member.opened().message();
            EXPECT_FALSE(member.file().keeps_journal());
            EXPECT_FALSE(keeps_journals(scratch));
            ASSERT_TRUE(member.file().commit());
            ASSERT_TRUE(member.close());
        });
    }
}

TEST(SeveralConsistentNodes, fail_to_open_if_not_all_have_the_option_and_one_is_strict) {
    test::Scratch scratch(bytes_of(1000, 1));
    test::ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
        const int rank = team->rank();
        LoadedOptions options = options_of(rank, rank == 1 ? SeveralNodes::kConsistent : SeveralNodes::kFast);
        options.options.strict = rank == 2;
        test::TeamMember member(team, scratch, options);
        EXPECT_EQ(member.opened().code(), Code::kUnsupported) << member.opened().message();
    });
    EXPECT_FALSE(keeps_journals(scratch));
}

TEST(SeveralConsistentNodes, end_their_journals_when_they_step_aside) {
    test::Scratch scratch(bytes_of(1000, 1));
    test::ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
        test::TeamMember member(team, scratch, options_of(team->rank()));
        ASSERT_TRUE(member.opened());
        ASSERT_TRUE(member.write(static_cast<std::uint64_t>(team->rank()) * 100, bytes_of(100, 2)));
        ASSERT_TRUE(member.file().step_aside(ledger::AsideReason::kAtomicity));
        EXPECT_FALSE(member.file().keeps_journal());
        ASSERT_TRUE(member.write(static_cast<std::uint64_t>(team->rank()) * 100, bytes_of(100, 3)));
        ASSERT_TRUE(member.file().commit());
        EXPECT_FALSE(keeps_journals(scratch));
        ASSERT_TRUE(member.close());
    });
    const auto contents = scratch.contents();
    EXPECT_TRUE(same({contents.begin(), contents.begin() + 100}, bytes_of(100, 3)));
}

TEST(SeveralConsistentNodes, of_one_node_are_an_ordinary_team) {
    test::Scratch scratch;
    test::ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
        test::TeamMember member(team, scratch, options_of(0));
        ASSERT_TRUE(member.opened());
        EXPECT_FALSE(member.file().keeps_journal());
        ASSERT_TRUE(member.close());
    });
}

}   // namespace
}   // namespace forebay
