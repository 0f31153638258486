// Random writes of several participants with durability=node, a loss of power at a random call, recovery after the next
// boot, which may lose power as well: the file is as at the last commit that had returned, or as at one that was under
// way.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "support/power_recovery.h"
#include "support/seeds.h"
#include "support/team_files.h"

namespace forebay {
namespace {

constexpr std::uint64_t kSeeds = 60;

using Content = test::Power::Content;
using stage::ByteClass;
using test::Power;

struct Flavour {
    const char* name;
    std::uint64_t size, segment, write_size_max;
    std::uint64_t given_back;   // segments at least, in all; with less nothing would be shown
    bool all_raw = false;       // nothing but new raw data: much drains, and is given back, between two commits
};
std::ostream& operator<<(std::ostream& out, const Flavour& flavour) { return out << flavour.name; }

class PowerLossOfANode : public testing::TestWithParam<Flavour> {};

TEST_P(PowerLossOfANode, recovery_gives_the_last_commit_that_had_returned_or_the_one_under_way) {
    const Flavour& flavour = GetParam();
    LoadedOptions loaded = test::small_options();
    loaded.options.size = flavour.size;
    loaded.options.segment = flavour.segment;
    loaded.options.durability = Durability::kNode;
    const std::uint64_t space = flavour.all_raw ? 0 : 300 << 10;
    std::uint64_t judged = 0, after_commits = 0, syncs = 0, staged = 0, closed_once = 0,
                  released = 0;   // of fixed seeds
    // The last of the fixed seeds give many segments back, which few others do where the log is tight or the file
    // grows.
    constexpr std::size_t kFixed = 7;
    std::size_t begun = 0;
    for (const std::uint64_t seed : test::seeds("recovery_gives_the_last_commit_that_had_returned_or_the_one_under_way",
                                                kSeeds, {1, 2, 3, 1972315243, 2047442615, 807608472, 53272660})) {
        if (HasFailure()) break;
        const std::uint64_t counts = begun++ < kFixed ? 1 : 0;
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        Power power(random());
        const std::size_t count = 2 + below(3);
        Content now = test::bytes_of(below(40000), seed);
        test::Participants node(count, loaded, nullptr, now, false,
                                {[&](std::unique_ptr<io::Directory> area) {
                                     return power.wrap(std::move(area), test::kArea);
                                 },
                                 [&](std::unique_ptr<io::File> target) {
                                     auto wrapped = power.wrap(std::move(target), test::kTarget);
                                     EXPECT_TRUE(wrapped->sync());   // what was there before
                                     return wrapped;
                                 }});
        node.listen();
        power.arm(1 + below(below(3) == 0 ? 60 : 250));

        Content promised = now;             // by the last commit that has returned
        std::optional<Content> under_way;   // a commit that has not
        std::uint64_t given_up = 0;         // when it was made
        bool spoiled = false;   // for want of room, bytes went home before their commit: that is told, not hidden
        bool committed_once = false, closed = false;
        const auto committed = [&](const Status& status) {
            if (power.off()) return;
            ASSERT_TRUE(status) << status.message();
            promised = now;
            committed_once = true;
            under_way.reset();
        };
        while (!power.off() && !closed) {
            const std::uint64_t offset = space == 0 || below(4) == 0 ? now.size() : below(space);
            switch (below(14)) {
                case 0:
                    if (flavour.all_raw && below(4) != 0) break;
                    under_way = now;
                    ASSERT_NO_FATAL_FAILURE(committed(node.commit()));
                    // As file::SharedFile does it, or for a while not.
                    if (!power.off() && below(2) == 0) {
                        ASSERT_TRUE(node.drain());
                    }
                    break;
                case 1:
                    if (below(3) == 0 && space > 0) {
                        const std::uint64_t to = below(space);
                        ASSERT_TRUE(node.truncate(to));
                        now.resize(to);
                    }
                    break;
                case 2:
                    if (below(25) == 0) {
                        under_way = now;
                        const Status outcome = node.close();
                        closed = true;
                        ASSERT_NO_FATAL_FAILURE(committed(outcome));
                    }
                    break;
                default: {
                    const auto bytes = test::bytes_of(1 + below(below(3) == 0 ? flavour.write_size_max : 1500),
                                                      random());
                    const auto byte_class = !flavour.all_raw && below(3) == 0 ? ByteClass::kMetadata : ByteClass::kRaw;
                    ASSERT_TRUE(node.write(below(count), offset, bytes, byte_class));
                    if (now.size() < offset + bytes.size()) now.resize(offset + bytes.size());
                    std::copy(bytes.begin(), bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(offset));
                }
            }
            std::uint64_t given = 0;
            for (std::size_t i = 0; i < count; ++i)
                given += node.file(i).counters().guarantee_given_up + node.file(i).counters().through;
            if (!under_way && test::identical(promised, now)) spoiled = false;
            else if (given > given_up) spoiled = true;
            given_up = given;
        }
        power.fail_now();
        closed_once += closed ? counts : 0;
        for (std::size_t i = 0; i < count; ++i) {
            syncs += counts * node.file(i).counters().syncs;
            staged += counts * node.file(i).counters().staged;
            if (!closed) released += counts * node.group(i).log().released();
        }
        const auto devices = power.devices();
        if (!closed) (void)node.close();
        node.end();
        if (spoiled) continue;

        const test::Recovered recovered = test::recover_unasked(devices, random, static_cast<int>(below(3)));
        judged += counts;
        if (committed_once) after_commits += counts;
        ASSERT_EQ(recovered.refused, "");
        if (under_way && test::identical(recovered.content, *under_way)) continue;
        ASSERT_TRUE(test::same(recovered.content, promised))
            << (under_way ? "a commit was under way" : "") << (committed_once ? "" : ", the first one");
    }
    EXPECT_GT(judged, 0u);
    EXPECT_GT(after_commits, 0u);
    EXPECT_GT(closed_once, 0u);
    EXPECT_GT(syncs, 0u);
    EXPECT_GT(staged, 0u);
    EXPECT_GE(released, flavour.given_back) << "segments were given back, and used again";
}

INSTANTIATE_TEST_SUITE_P(Flavours, PowerLossOfANode,
                         testing::Values(Flavour{"roomy", 4 << 20, 64 << 10, 30000, 0},
                                         Flavour{"tight", 256 << 10, 32 << 10, 20000, 1},
                                         Flavour{"small_writes", 64 << 10, 16 << 10, 300, 0},
                                         Flavour{"growing", 128 << 10, 16 << 10, 20000, 1, true}),
                         [](const auto& flavour) { return std::string(flavour.param.name); });

}   // namespace
}   // namespace forebay
