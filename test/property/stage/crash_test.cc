// Random operations and, at a random call, a loss of power (durability=node) or the death of the process
// (durability=process), then recovery, which may end in the same way: the file is as at the last commit that had
// returned, or as at one that was under way.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "support/engine_fixture.h"
#include "support/power_recovery.h"
#include "support/seeds.h"

namespace forebay {
namespace {

constexpr std::uint64_t kSeeds = 80;

using Content = test::Power::Content;
using stage::ByteClass;
using test::Area;
using test::Power;
using test::Target;

using test::kArea;
using test::kTarget;
using test::recover_unasked;
using test::Recovered;

struct Flavour {
    const char* name;
    std::uint64_t size, segment, write_size_max;
    Durability durability = Durability::kNode;
    std::uint64_t operations_max = UINT64_MAX;   // until the crash; few of them make a call when nothing is synced
};
std::ostream& operator<<(std::ostream& out, const Flavour& flavour) { return out << flavour.name; }

class Crash : public testing::TestWithParam<Flavour> {};

TEST_P(Crash, recovery_gives_the_last_commit_that_had_returned_or_the_one_under_way) {
    const Flavour& flavour = GetParam();
    LoadedOptions loaded = test::small_options();
    loaded.options.size = flavour.size;
    loaded.options.segment = flavour.segment;
    loaded.options.durability = flavour.durability;
    const bool durable = flavour.durability == Durability::kNode;
    const auto loses = durable ? Power::Loses::kWhatWasNotSynced : Power::Loses::kNothing;
    constexpr std::uint64_t kSpace = 300 << 10;
    std::uint64_t judged = 0, after_commits = 0, syncs = 0, staged = 0;
    for (const std::uint64_t seed : test::seeds("recovery_gives_the_last_commit_that_had_returned_or_the_one_under_way",
                                                kSeeds, {1, 2, 3, 297342592})) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const std::uint64_t counts = seed <= test::kFixedSeedMax ? 1 : 0;
        std::mt19937_64 random(seed);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        Area area;
        Target target;
        Power power(random(), loses);
        const auto opener = [&]() -> Result<std::unique_ptr<io::Directory>> {
            return power.wrap(area.shared_open(), kArea);
        };
        auto engine = stage::Engine::create(loaded, opener);
        const auto open = [&] {
            auto attached = engine->attach({power.wrap(target.open(), kTarget), true});
            EXPECT_TRUE(attached);
            return attached.value().file;
        };
        auto file = open();
        power.arm(1 + below(400 / test::kEachNth));
        std::uint64_t left = 1 + below(flavour.operations_max);

        Content now;
        Content promised;                   // by the last commit that has returned
        std::optional<Content> under_way;   // a commit that has not
        std::uint64_t given_up = 0;         // when it was made
        bool spoiled = false;   // for want of room, bytes went home before their commit: that is told, not hidden
        const auto committed = [&](const Status& status) {
            if (power.off()) return;
            ASSERT_TRUE(status) << status.message();
            promised = now;
            under_way.reset();
        };
        while (!power.off()) {
            if (--left == 0) {
                power.fail_now();
                break;
            }
            const std::uint64_t offset = below(4) == 0 ? now.size() : below(kSpace);
            switch (below(14)) {
                case 0:
                    under_way = now;
                    ASSERT_NO_FATAL_FAILURE(committed(file->commit()));
                    break;
                case 1:
                    if (below(3) == 0) {
                        const std::uint64_t to = below(kSpace);
                        ASSERT_TRUE(file->truncate(to));
                        now.resize(to);
                    }
                    break;
                case 2:
                    if (below(12) == 0) {
                        under_way = now;
                        syncs += counts * file->counters().syncs;
                        staged += counts * file->counters().staged;
                        const Status closed = engine->detach(file, true);
                        ASSERT_NO_FATAL_FAILURE(committed(closed));
                        file = open();
                        given_up = 0;
                    }
                    break;
                default: {
                    const auto bytes = test::bytes_of(1 + below(below(3) == 0 ? flavour.write_size_max : 1500),
                                                      random());
                    ASSERT_TRUE(file->write(offset, bytes, below(3) == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
                    if (now.size() < offset + bytes.size()) now.resize(offset + bytes.size());
                    std::copy(bytes.begin(), bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(offset));
                }
            }
            const auto counters = file->counters();
            const std::uint64_t given = counters.guarantee_given_up + counters.through;
            if (!under_way && test::identical(promised, now)) spoiled = false;
            else if (given > given_up) spoiled = true;
            given_up = given;
        }
        syncs += counts * file->counters().syncs;
        staged += counts * file->counters().staged;
        const auto devices = power.devices();
        (void)engine->detach(file, true);
        engine.reset();
        if (spoiled) continue;

        const Recovered recovered = recover_unasked(devices, random, static_cast<int>(below(3)), loses);
        judged += counts;
        if (!promised.empty()) after_commits += counts;
        if (promised.empty() && !recovered.refused.empty()) continue;   // nothing had been promised
        ASSERT_EQ(recovered.refused, "");
        if (under_way && test::identical(recovered.content, *under_way)) continue;
        ASSERT_TRUE(test::same(recovered.content, promised)) << (under_way ? "a commit was under way" : "");
    }
    EXPECT_GT(judged, 0u);
    EXPECT_GT(after_commits, 0u);
    EXPECT_EQ(syncs > 0, durable);
    EXPECT_GT(staged, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Flavours, Crash,
    testing::Values(Flavour{"roomy", 4 << 20, 64 << 10, 30000}, Flavour{"tight", 512 << 10, 32 << 10, 20000},
                    Flavour{"small_writes", 512 << 10, 32 << 10, 300},
                    Flavour{"large_writes", 8 << 20, 1 << 20, 200000, Durability::kNode, 25},
                    Flavour{"killed_roomy", 4 << 20, 64 << 10, 30000, Durability::kProcess, 200},
                    Flavour{"killed_tight", 512 << 10, 32 << 10, 20000, Durability::kProcess, 200},
                    Flavour{"killed_very_tight", 96 << 10, 16 << 10, 6000, Durability::kProcess, 200},
                    Flavour{"killed_large_writes", 8 << 20, 1 << 20, 200000, Durability::kProcess, 60}),
    [](const auto& flavour) { return std::string(flavour.param.name); });

}   // namespace
}   // namespace forebay
