// Commits of which no record can be made, as there is no segment for it.
#include <gtest/gtest.h>

#include <cerrno>

#include "support/crash.h"
#include "support/engine_fixture.h"

namespace forebay::stage {
namespace {

using io::FaultPlan;
using io::Operation;
using test::Area;
using test::bytes_of;
using test::same;
using test::Target;

struct Written {
    explicit Written(std::shared_ptr<FaultPlan> of_target = nullptr) {
        auto full = std::make_shared<FaultPlan>();
        engine = Engine::create(test::small_options(), area.opener(full));
        file = test::attach(*engine, target, true, std::move(of_target));
        full->fail(Operation::kAllocate, 1, 1000000, ENOSPC);
    }
    [[nodiscard]] std::vector<std::byte> recovered() {
        test::Crash crash(*area.shared_open(), [&] { return target.contents(); }, target.identity());
        EXPECT_TRUE(crash.recover());
        return crash.contents();
    }
    Area area;
    Target target;
    std::unique_ptr<Engine> engine;
    std::shared_ptr<StagedFile> file;
};

TEST(CommitWithoutLog, a_cut_is_in_the_target_when_the_commit_returns) {
    Written written;
    const auto bytes = bytes_of(50000, 1);
    ASSERT_TRUE(written.file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(written.file->commit());
    ASSERT_TRUE(written.file->truncate(20000));
    ASSERT_TRUE(written.file->commit());
    EXPECT_TRUE(same(written.recovered(), {bytes.begin(), bytes.begin() + 20000}));
    EXPECT_TRUE(written.engine->detach(written.file, true));
}

TEST(CommitWithoutLog, what_was_cut_is_zeros_after_the_file_has_grown_again) {
    Written written;
    auto bytes = bytes_of(50000, 1);
    ASSERT_TRUE(written.file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(written.file->commit());
    ASSERT_TRUE(written.file->truncate(20000));
    ASSERT_TRUE(written.file->truncate(60000));
    ASSERT_TRUE(written.file->commit());
    bytes.resize(20000);
    bytes.resize(60000);
    EXPECT_TRUE(same(written.recovered(), bytes));
    EXPECT_TRUE(written.engine->detach(written.file, true));
}

TEST(CommitWithoutLog, the_size_of_a_file_that_only_grew_is_in_the_target) {
    Written written;
    ASSERT_TRUE(written.file->truncate(60000));
    ASSERT_TRUE(written.file->commit());
    EXPECT_EQ(written.recovered().size(), 60000U);
    EXPECT_TRUE(written.engine->detach(written.file, true));
}

TEST(CommitWithoutLog, it_fails_if_the_target_cannot_be_cut) {
    auto of_target = std::make_shared<FaultPlan>();
    Written written(of_target);
    ASSERT_TRUE(written.file->write(0, bytes_of(50000, 1), ByteClass::kRaw));
    ASSERT_TRUE(written.file->commit());
    of_target->fail(Operation::kResize, 1, 1000000, EIO);
    ASSERT_TRUE(written.file->truncate(20000));
    EXPECT_FALSE(written.file->commit());
    of_target->clear();
    EXPECT_FALSE(written.engine->detach(written.file, true)) << "an earlier call failed";
    EXPECT_EQ(written.target.contents().size(), 20000U);
}

}   // namespace
}   // namespace forebay::stage
