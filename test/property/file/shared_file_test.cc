// Random programs of several participants against a plain byte array: reads on every participant agree after
// every meeting, the target does after close, and what an abrupt end leaves gives the file at its last commit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <random>

#include "support/forked_team.h"
#include "support/seeds.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::same;

struct Flavour {
    const char* name;
    std::size_t members;
    std::uint64_t size, segment, stripe;
    std::uint64_t write_max;   // of one write of the program
    bool truncations;
};
std::ostream& operator<<(std::ostream& out, const Flavour& flavour) { return out << flavour.name; }
std::string name_of(const testing::TestParamInfo<Flavour>& flavour) { return flavour.param.name; }

constexpr std::uint64_t kSpace = 300 << 10;

LoadedOptions options_of(const Flavour& flavour) {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = flavour.size;
    loaded.options.segment = flavour.segment;
    loaded.options.stripe = flavour.stripe;
    loaded.options.write_max = 4 * flavour.stripe;
    return loaded;
}

// A program that all members know: each round some of them write, to places of their own in that round but
// to anybody's of the rounds before; then something collective, perhaps; then they read.
class Program {
  public:
    enum class Collective { kNothing, kTruncate, kCommit };
    struct Write {
        std::uint64_t offset, seed;
        std::size_t size;
        ByteClass byte_class;
        // So many pieces, each so far behind the one before, in one call.
        std::size_t pieces = 1;
        std::uint64_t stride = 0;
    };
    struct Round {
        std::vector<std::vector<Write>> writes;   // by member
        Collective collective = Collective::kNothing;
        std::uint64_t size = 0;   // of a truncation
        bool together = false;    // the writes are one collective one
    };

    Program(const Flavour& flavour, std::uint64_t seed) {
        std::mt19937_64 random(seed);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        std::uint64_t end = 0;
        for (std::uint64_t left = 4 + below(30); left > 0; --left) {
            Round round;
            round.writes.resize(flavour.members);
            // Every member gets strips of the file in turn, of a width that changes from round to round.
            const std::uint64_t width = 1 + below(2 * flavour.write_max);
            const std::uint64_t shift = below(flavour.members);
            for (std::size_t member = 0; member < flavour.members; ++member)
                for (std::uint64_t count = below(8); count > 0; --count) {
                    const std::uint64_t strip = below(kSpace / width / flavour.members + 1) * flavour.members +
                                                (member + shift) % flavour.members;
                    const std::uint64_t begin = below(width);
                    const std::size_t size = 1 + below(std::min(width - begin, flavour.write_max));
                    round.writes[member].push_back({strip * width + begin, random(), size,
                                                    below(4) == 0 ? ByteClass::kMetadata : ByteClass::kRaw});
                    end = std::max(end, strip * width + begin + size);
                }
            if (below(3) == 0) {
                // Points and small blocks that all members write in turns, and some only in part.
                const std::uint64_t size = 1 + below(24), stride = size * flavour.members, pieces = 64 + below(150);
                const std::uint64_t begin = below(kSpace - stride * pieces);
                for (std::size_t member = 0; member < flavour.members; ++member) {
                    round.writes[member].clear();
                    if (below(8) == 0) continue;
                    round.writes[member].push_back({begin + size * member, random(), static_cast<std::size_t>(size),
                                                    below(12) == 0 ? ByteClass::kMetadata : ByteClass::kRaw,
                                                    static_cast<std::size_t>(pieces), stride});
                    end = std::max(end, begin + size * member + stride * (pieces - 1) + size);
                }
                round.together = below(2) == 0;
            }
            if (const std::uint64_t choice = below(8); choice == 0) {
                round.collective = Collective::kCommit;
            } else if (choice == 1 && flavour.truncations) {
                round.collective = Collective::kTruncate;
                round.size = end = below(kSpace);
            }
            rounds.push_back(std::move(round));
        }
    }
    static void apply(const Round& round, test::PlainBytes& content) {
        for (const auto& writes : round.writes)
            for (const Write& write : writes) {
                const auto bytes = test::bytes_of(write.size * write.pieces, write.seed);
                for (std::size_t i = 0; i < write.pieces; ++i)
                    content.write(write.offset + i * write.stride,
                                  io::Bytes(bytes).subspan(i * write.size, write.size));
            }
        if (round.collective == Collective::kTruncate) content.content.resize(round.size);
    }

    std::vector<Round> rounds;
};

Status carry_out(const Program::Write& write, test::TeamMember& member) {
    const auto bytes = test::bytes_of(write.size * write.pieces, write.seed);
    std::vector<stage::StagedFile::Part> parts;
    for (std::size_t i = 0; i < write.pieces; ++i)
        parts.push_back({write.offset + i * write.stride, io::Bytes(bytes).subspan(i * write.size, write.size)});
    return member.file().write(parts, write.byte_class);
}

// One member's way through the rounds [from, to).
void run(const Program& program, std::size_t from, std::size_t to, test::TeamMember& member, std::size_t rank,
         test::PlainBytes& expected, const std::function<void()>& committed = {}) {
    std::mt19937_64 random(rank);
    for (std::size_t i = from; i < to; ++i) {
        SCOPED_TRACE(testing::Message() << "round " << i << ", member " << rank);
        const Program::Round& round = program.rounds[i];
        const auto write_all = [&]() -> Status {
            for (const Program::Write& write : round.writes[rank]) FOREBAY_TRY(carry_out(write, member));
            return Status::ok();
        };
        ASSERT_TRUE(round.together ? member.file().write_collectively(write_all) : write_all());
        Program::apply(round, expected);
        switch (round.collective) {
            case Program::Collective::kNothing: ASSERT_TRUE(member.file().meet()); break;
            case Program::Collective::kCommit:
                ASSERT_TRUE(member.file().commit());
                if (committed) committed();
                break;
            case Program::Collective::kTruncate: ASSERT_TRUE(member.file().truncate(round.size)); break;
        }
        const std::size_t all = expected.content.size();
        if (random() % 4 == 0) {
            ASSERT_TRUE(same(member.read(0, all), expected.content));
        } else if (random() % 2 == 0) {
            const std::uint64_t at = random() % kSpace;
            ASSERT_TRUE(same(member.read(at, 20000), expected.read(at, 20000)));
        }
        ASSERT_TRUE(member.file().meet());   // nobody overwrites what another still reads
    }
}

const auto kFlavours = testing::Values(Flavour{"roomy", 3, 16 << 20, 64 << 10, 16 << 10, 20000, true},
                                       Flavour{"tight", 3, 96 << 10, 16 << 10, 4 << 10, 6000, false},
                                       Flavour{"tight_with_truncations", 3, 96 << 10, 16 << 10, 4 << 10, 6000, true},
                                       Flavour{"two_segments_each", 4, 32 << 10, 16 << 10, 1 << 10, 9000, true},
                                       Flavour{"tiny_writes", 2, 64 << 10, 16 << 10, 512, 300, true},
                                       Flavour{"two_members", 2, 96 << 10, 16 << 10, 4 << 10, 20000, true});

class ThreadsOfOneProcess : public testing::TestWithParam<Flavour> {};

TEST_P(ThreadsOfOneProcess, equal_a_plain_byte_array_after_every_meeting_and_close) {
    std::atomic<std::uint64_t> staged{0};
    for (const std::uint64_t seed :
         test::seeds("equal_a_plain_byte_array_after_every_meeting_and_close", 12, {1, 2, 3})) {
        if (HasFailure()) break;
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const Program program(GetParam(), seed);
        test::Scratch scratch;
        test::PlainBytes expected;
        for (const Program::Round& round : program.rounds) Program::apply(round, expected);
        test::ThreadTeam::run(static_cast<int>(GetParam().members), [&](std::shared_ptr<file::Team> team) {
            test::TeamMember member(team, scratch, options_of(GetParam()));
            ASSERT_TRUE(member.opened()) << member.opened().message();
            test::PlainBytes content;
            run(program, 0, program.rounds.size(), member, static_cast<std::size_t>(team->rank()), content);
            const Status closed = member.close();
            ASSERT_TRUE(closed) << closed.message();
            if (seed <= test::kFixedSeedMax) staged += member.counters().staged;
        });
        ASSERT_TRUE(same(scratch.contents(), expected.content));
        ASSERT_TRUE(scratch.left().empty());
    }
    EXPECT_GT(staged.load(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Flavours, ThreadsOfOneProcess, kFlavours, name_of);

// Nobody waits for room here: what is held stays held until its commit.
class AbruptEnd : public testing::TestWithParam<Flavour> {};

TEST_P(AbruptEnd, leaves_logs_that_together_give_the_file_at_its_last_commit) {
    if (!test::kForkedTeams) GTEST_SKIP() << "this sanitizer does not allow threads after a fork";
    for (const std::uint64_t seed :
         test::seeds("leaves_logs_that_together_give_the_file_at_its_last_commit", 20, {1, 2, 3})) {
        if (HasFailure()) break;
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const Program program(GetParam(), seed);
        test::Scratch scratch;
        test::ForkedTeam team;
        const std::size_t last = seed % program.rounds.size();
        const auto ends = team.run(static_cast<int>(GetParam().members), [&](std::shared_ptr<file::Team> self) {
            test::TeamMember member(self, scratch, options_of(GetParam()));
            ASSERT_TRUE(member.opened());
            const auto rank = static_cast<std::size_t>(self->rank());
            test::PlainBytes content;
            run(program, 0, last, member, rank, content);
            // In the midst of a round.
            for (const Program::Write& write : program.rounds[last].writes[rank]) ASSERT_TRUE(carry_out(write, member));
            (void)::raise(SIGKILL);
        });
        for (const int end : ends) ASSERT_TRUE(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
        test::PlainBytes content, committed;
        for (std::size_t i = 0; i < last; ++i) {
            Program::apply(program.rounds[i], content);
            if (program.rounds[i].collective == Program::Collective::kCommit) committed = content;
        }
        ASSERT_TRUE(same(scratch.recovered(), committed.content));
    }
}

INSTANTIATE_TEST_SUITE_P(Flavours, AbruptEnd,
                         testing::Values(Flavour{"writes", 3, 16 << 20, 64 << 10, 16 << 10, 20000, false},
                                         Flavour{"writes_and_truncations", 3, 16 << 20, 64 << 10, 16 << 10, 20000,
                                                 true},
                                         Flavour{"small_segments", 3, 4 << 20, 16 << 10, 1 << 10, 6000, true}),
                         name_of);

// One thread decides the order of all writes, which then may overlap in any way without a meeting.
TEST(ParticipantsProperty, equal_a_plain_byte_array_at_every_read_whoever_writes_where) {
    for (const std::uint64_t seed :
         test::seeds("equal_a_plain_byte_array_at_every_read_whoever_writes_where", 50, {1, 2, 3})) {
        if (HasFailure()) break;
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        LoadedOptions options = test::tiny_options();
        if (seed % 3 == 0) options.options.size = 4 << 20;
        const std::size_t count = 2 + below(3);
        const auto before = test::bytes_of(below(50000), seed);
        test::Participants node(count, options, nullptr, before);
        node.listen();
        test::PlainBytes expected{before};
        std::uint64_t staged = 0;
        for (std::uint64_t left = 50 + below(250); left > 0; --left) {
            switch (const std::size_t who = below(count); below(12)) {
                case 0: ASSERT_TRUE(node.commit()); break;
                case 1:
                    if (below(3) == 0) {
                        const std::uint64_t size = below(100000);
                        ASSERT_TRUE(node.truncate(size));
                        expected.content.resize(size);
                    }
                    break;
                case 2:
                case 3:
                case 4: {
                    const std::uint64_t at = below(100000);
                    ASSERT_TRUE(same(node.read(who, at, 5000), expected.read(at, 5000))) << "participant " << who;
                    break;
                }
                case 5: {
                    const std::size_t size = 1 + below(16), pieces = 64 + below(100);
                    const std::uint64_t at = below(100000), stride = size * (1 + below(count));
                    const auto bytes = test::bytes_of(size * pieces, random());
                    std::vector<stage::StagedFile::Part> parts;
                    for (std::size_t i = 0; i < pieces; ++i) {
                        parts.push_back({at + i * stride, io::Bytes(bytes).subspan(i * size, size)});
                        expected.write(parts.back().offset, parts.back().bytes);
                    }
                    ASSERT_TRUE(node.file(who).write(parts, ByteClass::kRaw));
                    if (below(2) == 0) node.file(0).membership().collective_write_done();
                    staged += bytes.size();
                    break;
                }
                default: {
                    const std::uint64_t at = below(100000);
                    const auto bytes = test::bytes_of(1 + below(5000), random());
                    ASSERT_TRUE(node.write(who, at, bytes, below(3) == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
                    expected.write(at, bytes);
                    staged += bytes.size();
                }
            }
        }
        for (std::size_t who = 0; who < count; ++who)
            ASSERT_TRUE(same(node.read(who, 0, expected.content.size()), expected.content)) << "participant " << who;
        const Status closed = node.close();
        ASSERT_TRUE(closed) << closed.message();
        ASSERT_TRUE(same(node.target().contents(), expected.content));
        std::uint64_t counted = 0;
        for (std::size_t who = 0; who < count; ++who)
            counted += node.file(who).counters().staged + node.file(who).counters().through;
        EXPECT_EQ(counted, staged);
    }
}

// The same with large writes and a target that is as fast as the log: whether there is the time to drain changes all
// the time, and with it what is staged and what goes straight to the target. What a crash would leave is the last
// commit at any time.
TEST(ParticipantsProperty, equal_a_plain_byte_array_whichever_writes_go_straight) {
    constexpr std::uint64_t kLargeSpace = 24 << 20, kUnknown = 0, kPlenty = 1, kNoTime = std::uint64_t{1} << 50;
    std::uint64_t straight = 0, staged = 0;
    for (const std::uint64_t seed :
         test::seeds("equal_a_plain_byte_array_whichever_writes_go_straight", 6, {1, 2, 3})) {
        if (HasFailure()) break;
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        LoadedOptions options = test::small_options();
        options.options.size = 256 << 20;
        options.options.patience = 0;   // the target is known not to hang
        options.options.segment = options.options.stripe = 1 << 20;
        const std::size_t count = 2 + below(3);
        test::Participants node(count, options, nullptr, test::bytes_of(below(2 << 20), seed));
        node.listen();
        test::PlainBytes now{node.target().contents()};
        std::vector<std::byte> committed = now.content;
        bool was_cut = false;
        for (std::uint64_t left = 20 + below(50); left > 0; --left) {
            // After a cut the drainer's own word counts.
            if (const std::uint64_t pace = std::array{kUnknown, kPlenty, kNoTime, kNoTime}[below(4)]; !was_cut)
                node.group(0).target().set_memory_pace(pace);
            const std::size_t who = below(count);
            switch (below(16)) {
                case 0:
                    ASSERT_TRUE(node.commit());
                    committed = now.content;
                    break;
                case 1:
                    if (seed % 3 == 0 && below(3) == 0) {
                        const std::uint64_t size = below(kLargeSpace);
                        was_cut = was_cut || size < now.content.size();
                        ASSERT_TRUE(node.truncate(size));
                        now.content.resize(size);
                    }
                    break;
                case 2:
                case 3: {
                    const std::uint64_t at = below(kLargeSpace);
                    ASSERT_TRUE(same(node.read(who, at, 500'000), now.read(at, 500'000))) << "participant " << who;
                    break;
                }
                case 4: ASSERT_TRUE(same(node.recovered(), committed)); break;
                default: {
                    const std::size_t size = below(3) == 0 ? 1 + below(5000) : 1 + below(3 << 20);
                    const std::uint64_t at = below(3) == 0 ? now.content.size() : below(kLargeSpace);
                    const auto bytes = test::bytes_of(size, random());
                    ASSERT_TRUE(node.write(who, at, bytes, below(8) == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
                    now.write(at, bytes);
                }
            }
        }
        for (std::size_t who = 0; who < count; ++who)
            ASSERT_TRUE(same(node.read(who, 0, now.content.size()), now.content)) << "participant " << who;
        const Status closed = node.close();
        ASSERT_TRUE(closed) << closed.message();
        ASSERT_TRUE(same(node.target().contents(), now.content));
        for (std::size_t who = 1; who < count && seed <= test::kFixedSeedMax; ++who) {
            straight += node.file(who).counters().through;
            staged += node.file(who).counters().staged;
        }
    }
    EXPECT_GT(straight, 0u);
    EXPECT_GT(staged, 0u);
}

}   // namespace
}   // namespace forebay
