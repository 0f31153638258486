// One read of many places: staged, in the target, cut off, beyond the end, overlapping, in any order. And how the
// target is read for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "support/engine_fixture.h"
#include "support/scripted_file.h"

namespace forebay::stage {
namespace {

using test::Area;
using test::bytes_of;
using test::Target;

// Notes the sizes of reads.
struct Opened {
    std::unique_ptr<Area> area = std::make_unique<Area>();
    std::unique_ptr<Target> target = std::make_unique<Target>();
    std::shared_ptr<test::Script> script = std::make_shared<test::Script>();
    std::shared_ptr<Engine> engine;
    std::shared_ptr<StagedFile> file;
    std::vector<std::byte> content;

    // `patience`: not 0 where the target is one that is waited for.
    explicit Opened(std::uint64_t patience, std::uint64_t size) {
        LoadedOptions loaded = test::small_options();
        loaded.options.patience = patience;
        engine = Engine::create(loaded, area->opener());
        content = bytes_of(size, 1);
        EXPECT_TRUE(target->open()->write_at(0, content));
        auto attached = engine->attach({std::make_unique<test::ScriptedFile>(target->open(), script), true});
        EXPECT_TRUE(attached);
        file = attached.value().file;
    }
    ~Opened() { EXPECT_TRUE(engine->detach(file, true)); }
    void write(std::uint64_t offset, const std::vector<std::byte>& bytes) {
        EXPECT_TRUE(file->write(offset, bytes, ByteClass::kMetadata));   // held: stays staged
        if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size());
        std::ranges::copy(bytes, content.begin() + static_cast<std::ptrdiff_t>(offset));
    }
};

struct Wanted {
    std::uint64_t offset;
    std::vector<std::byte> got;
};

Status read_all(StagedFile& file, std::vector<Wanted>& wanted) {
    std::vector<StagedFile::ReadPart> parts;
    for (Wanted& one : wanted) parts.push_back({one.offset, one.got});
    return file.read(parts);
}

TEST(ReadParts, every_place_gets_its_newest_bytes) {
    constexpr std::uint64_t kSize = 2 << 20;
    for (const std::uint64_t patience : {0, 600}) {
        Opened opened(patience, kSize);
        std::mt19937_64 random(7 + patience);
        for (std::uint64_t i = 0; i < 40; ++i) opened.write(random() % kSize, bytes_of(1 + random() % 5000, 100 + i));
        ASSERT_TRUE(opened.file->truncate(kSize - 100'000));
        opened.content.resize(kSize - 100'000);
        opened.write(kSize - 40'000, bytes_of(10'000, 9));   // what was cut off before it is zeros
        for (int round = 0; round < 20; ++round) {
            std::vector<Wanted> wanted;
            for (int i = 0; i < 100; ++i) {
                const std::size_t size = i % 10 == 0 ? random() % 200'000 : random() % 3000;
                wanted.push_back({random() % (kSize + 1000), std::vector<std::byte>(size, std::byte{0xEE})});
            }
            if (round % 2 == 0) std::ranges::sort(wanted, {}, &Wanted::offset);
            ASSERT_TRUE(read_all(*opened.file, wanted));
            for (const Wanted& one : wanted)
                for (std::size_t i = 0; i < one.got.size(); ++i)
                    ASSERT_EQ(one.got[i],
                              one.offset + i < opened.content.size() ? opened.content[one.offset + i] : std::byte{0})
                        << one.offset + i;
        }
    }
}

TEST(ReadParts, rows_that_lie_near_each_other_are_one_request) {
    Opened opened(600, 1 << 20);
    std::vector<Wanted> wanted;
    for (std::uint64_t row = 0; row < 100; ++row) wanted.push_back({row * 4096, std::vector<std::byte>(1024)});
    ASSERT_TRUE(read_all(*opened.file, wanted));
    const auto reads = opened.script->calls(io::Operation::kRead);
    ASSERT_EQ(reads.size(), 1u);
    EXPECT_EQ(reads.front().size, 99u * 4096 + 1024);
    for (const Wanted& one : wanted)
        EXPECT_TRUE(std::equal(one.got.begin(), one.got.end(),
                               opened.content.begin() + static_cast<std::ptrdiff_t>(one.offset)));
}

TEST(ReadParts, a_request_that_fails_fails_the_read) {
    const Area area;
    const Target target;
    const auto plan = std::make_shared<io::FaultPlan>();
    auto engine = Engine::create(test::small_options(), area.opener());
    ASSERT_TRUE(target.open()->write_at(0, bytes_of(4 << 20, 1)));
    const auto file = test::attach(*engine, target, true, plan);
    std::vector<Wanted> wanted;
    for (std::uint64_t i = 0; i < 8; ++i) wanted.push_back({i * 500'000, std::vector<std::byte>(100'000)});
    plan->fail(io::Operation::kRead, 3, 1, EIO);
    EXPECT_EQ(read_all(*file, wanted).sys_errno(), EIO);
    EXPECT_TRUE(read_all(*file, wanted));
    EXPECT_TRUE(engine->detach(file, true));
}

}   // namespace
}   // namespace forebay::stage
