// No thread can be had: the program's own calls drain.
#include <gtest/gtest.h>

#include "support/engine_fixture.h"
#include "support/failing_threads.h"

namespace forebay {
namespace {

using stage::ByteClass;
using Content = std::vector<std::byte>;

class ThreadFault : public testing::TestWithParam<OnFlush> {};

TEST_P(ThreadFault, everything_is_staged_and_drained_by_the_program_s_own_calls) {
    if (FOREBAY_THREADS_ALWAYS_START) GTEST_SKIP() << "a sanitizer starts the threads";
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 512 << 10;      // so that writes have to wait for room
    loaded.options.reserve = 128 << 10;   // and the warm-up would like a thread
    loaded.options.flush = GetParam();
    test::Area area;
    test::Target target, other_target(2);
    const test::NoThreads none;
    auto engine = stage::Engine::create(loaded, area.opener());
    const auto file = test::attach(*engine, target), other = test::attach(*engine, other_target);
    Content now;
    for (std::uint64_t i = 0; i < 60; ++i) {
        const Content bytes = test::bytes_of(30'000, i);
        ASSERT_TRUE(file->write(now.size(), bytes, i % 5 == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
        now.insert(now.end(), bytes.begin(), bytes.end());
        if (i % 3 == 0) {
            ASSERT_TRUE(other->write(i * 100, io::Bytes(bytes).first(100), ByteClass::kRaw));
        }
        if (i % 10 == 9) {
            ASSERT_TRUE(file->commit());
            EXPECT_TRUE(GetParam() == OnFlush::kCommit || target.contents().size() == now.size());
        }
    }
    EXPECT_TRUE(test::same(test::read(*file, 0, now.size()), now));
    ASSERT_TRUE(engine->detach(file, true));
    EXPECT_TRUE(test::same(target.contents(), now));
    EXPECT_GT(file->counters().staged, 0u);
    ASSERT_TRUE(engine->detach(other, true));
    EXPECT_EQ(other_target.contents().size(), 57u * 100 + 100);
    engine.reset();
    EXPECT_GT(test::NoThreads::refused(), 2u);
    EXPECT_EQ(area.left(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Every, ThreadFault, testing::Values(OnFlush::kCommit, OnFlush::kDrain), [](const auto& given) {
    return std::string(given.param == OnFlush::kCommit ? "flush_commits" : "flush_drains");
});

}   // namespace
}   // namespace forebay
