// Random operations on staged files against a plain byte array: every read agrees as it happens, and the
// target holds the same bytes after close.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/engine_fixture.h"
#include "support/seeds.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::Area;
using test::Target;

struct Flavour {
    const char* name;
    std::uint64_t size, segment;
    WhenFull full;
    OnFlush flush;
    std::uint64_t write_size_max;
};

std::ostream& operator<<(std::ostream& out, const Flavour& flavour) { return out << flavour.name; }

class StagedFileProperty : public testing::TestWithParam<Flavour> {};

// What the file should hold.
class Oracle {
  public:
    void write(std::uint64_t offset, io::Bytes bytes) {
        if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size());
        std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    std::vector<std::byte> read(std::uint64_t offset, std::size_t size) const {
        std::vector<std::byte> bytes(size);
        for (std::size_t i = 0; i < size; ++i)
            if (offset + i < content.size()) bytes[i] = content[offset + i];
        return bytes;
    }
    std::vector<std::byte> content;
};

TEST_P(StagedFileProperty, equals_a_plain_byte_array_at_every_read_and_after_close) {
    const Flavour& flavour = GetParam();
    LoadedOptions loaded = test::small_options();
    loaded.options.size = flavour.size;
    loaded.options.segment = flavour.segment;
    loaded.options.full = flavour.full;
    loaded.options.flush = flavour.flush;
    constexpr std::uint64_t kSpace = 600 << 10;

    std::uint64_t staged = 0;
    for (const std::uint64_t seed :
         test::seeds("equals_a_plain_byte_array_at_every_read_and_after_close", 40, {1, 2, 3})) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        Area area;
        Target target;
        Oracle oracle;
        auto engine = stage::Engine::create(loaded, area.opener());
        for (int session = 0; session < 3; ++session) {
            auto file = test::attach(*engine, target);
            const int operations = 20 + static_cast<int>(below(120));
            for (int i = 0; i < operations; ++i) {
                const std::uint64_t offset = below(4) == 0 ? oracle.content.size() : below(kSpace);
                const std::size_t size = 1 + below(below(3) == 0 ? flavour.write_size_max : 2000);
                switch (below(12)) {
                    case 0: ASSERT_TRUE(file->commit()); break;
                    case 1: {
                        const std::uint64_t to = below(5) == 0 ? below(kSpace) : oracle.content.size();
                        ASSERT_TRUE(file->truncate(to));
                        oracle.content.resize(to);
                        break;
                    }
                    case 2:
                        if (below(10) == 0) {
                            ASSERT_TRUE(file->drain());
                        }
                        break;
                    case 3:
                    case 4:
                    case 5: {
                        ASSERT_TRUE(test::same(test::read(*file, offset, size), oracle.read(offset, size)));
                        break;
                    }
                    default: {
                        const auto bytes = test::bytes_of(size, random());
                        const auto kind = below(3) == 0 ? ByteClass::kMetadata : ByteClass::kRaw;
                        ASSERT_TRUE(file->write(offset, bytes, kind));
                        oracle.write(offset, bytes);
                    }
                }
                ASSERT_EQ(file->size(), oracle.content.size());
            }
            ASSERT_TRUE(test::same(test::read(*file, 0, oracle.content.size()), oracle.content));
            const auto counters = file->counters();
            if (seed <= test::kFixedSeedMax) staged += counters.staged;
            const Status closed = engine->detach(file, true);
            ASSERT_TRUE(closed) << closed.message();
            ASSERT_TRUE(test::same(target.contents(), oracle.content));
        }
        engine.reset();
        EXPECT_TRUE(area.left().empty());
    }
    EXPECT_GT(staged, 0u);
}

TEST_P(StagedFileProperty, writes_of_many_parts_equal_a_plain_byte_array) {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = GetParam().size;
    loaded.options.segment = GetParam().segment;
    loaded.options.full = GetParam().full;
    for (const std::uint64_t seed : test::seeds("writes_of_many_parts_equal_a_plain_byte_array", 15, {1, 2, 3})) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        Area area;
        Target target;
        Oracle oracle;
        auto engine = stage::Engine::create(loaded, area.opener());
        auto file = test::attach(*engine, target);
        std::uint64_t given = 0;
        for (int i = 0; i < 30; ++i) {
            std::vector<std::vector<std::byte>> kept(1 + random() % 200);
            std::vector<stage::StagedFile::Part> parts;
            for (auto& bytes : kept) {
                bytes = test::bytes_of(random() % (random() % 20 == 0 ? GetParam().write_size_max : 100), random());
                parts.push_back({random() % 500000, bytes});
                if (!bytes.empty()) oracle.write(parts.back().offset, bytes);
                given += bytes.size();
            }
            ASSERT_TRUE(file->write(parts, random() % 3 == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
            ASSERT_EQ(file->size(), oracle.content.size());
            const std::uint64_t at = random() % 500000;
            ASSERT_TRUE(test::same(test::read(*file, at, 50000), oracle.read(at, 50000)));
            if (random() % 5 == 0) {
                ASSERT_TRUE(file->commit());
            }
        }
        const auto counters = file->counters();
        EXPECT_EQ(counters.staged + counters.through, given);
        EXPECT_EQ(counters.requests, 30u);
        ASSERT_TRUE(engine->detach(file, true));
        ASSERT_TRUE(test::same(target.contents(), oracle.content));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Flavours, StagedFileProperty,
    testing::Values(Flavour{"roomy", 64 << 20, 1 << 20, WhenFull::kWait, OnFlush::kCommit, 100000},
                    Flavour{"large_writes", 8 << 20, 1 << 20, WhenFull::kWait, OnFlush::kCommit, 400000},
                    Flavour{"tight_wait", 256 << 10, 32 << 10, WhenFull::kWait, OnFlush::kCommit, 100000},
                    Flavour{"tight_through", 256 << 10, 32 << 10, WhenFull::kThrough, OnFlush::kCommit, 100000},
                    Flavour{"two_segments", 64 << 10, 32 << 10, WhenFull::kWait, OnFlush::kDrain, 100000},
                    Flavour{"small_writes", 1 << 20, 64 << 10, WhenFull::kWait, OnFlush::kDrain, 500}),
    [](const auto& flavour) { return std::string(flavour.param.name); });

TEST(StagedFiles, several_files_share_a_tight_log_without_mixing_or_hanging) {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 256 << 10;
    loaded.options.segment = 32 << 10;
    for (const std::uint64_t seed :
         test::seeds("several_files_share_a_tight_log_without_mixing_or_hanging", 20, {1, 2, 3})) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed);
        Area area;
        auto engine = stage::Engine::create(loaded, area.opener());
        constexpr std::size_t kFiles = 12;   // more than there are segments
        std::vector<std::unique_ptr<Target>> targets;
        std::vector<std::shared_ptr<stage::StagedFile>> files;
        std::vector<Oracle> oracles(kFiles);
        for (std::size_t i = 0; i < kFiles; ++i) {
            targets.push_back(std::make_unique<Target>(i + 1));
            files.push_back(test::attach(*engine, *targets.back()));
        }
        for (int i = 0; i < 400; ++i) {
            const std::size_t at = random() % kFiles;
            const std::uint64_t offset = random() % 100000;
            const auto bytes = test::bytes_of(1 + random() % 5000, random());
            ASSERT_TRUE(files[at]->write(offset, bytes, random() % 2 == 0 ? ByteClass::kRaw : ByteClass::kMetadata));
            oracles[at].write(offset, bytes);
            if (random() % 10 == 0) {
                ASSERT_TRUE(files[at]->commit());
            }
            const std::size_t other = random() % kFiles;
            ASSERT_EQ(test::read(*files[other], 0, oracles[other].content.size()), oracles[other].content);
        }
        for (std::size_t i = 0; i < kFiles; ++i) {
            ASSERT_TRUE(engine->detach(files[i], true));
            ASSERT_EQ(targets[i]->contents(), oracles[i].content);
        }
    }
}

}   // namespace
}   // namespace forebay
