#include "io/fault_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "io/memory_file.h"

namespace forebay::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FaultFileTest : public ::testing::Test {
  protected:
    FaultFileTest() : plan_(std::make_shared<FaultPlan>()) {
        directory_ = make_fault_directory(make_memory_directory("/memory"), plan_);
        file_ = std::move(directory_->open_file("file", OpenMode::kCreateNew)).value();
    }

    // Writes ten single bytes; true where that worked.
    std::vector<bool> ten_writes() {
        std::vector<bool> worked;
        for (std::uint64_t i = 0; i < 10; ++i) worked.push_back(bool(file_->write_at(i, byte_)));
        return worked;
    }

    std::array<std::byte, 1> byte_{std::byte{'x'}};
    std::shared_ptr<FaultPlan> plan_;
    std::unique_ptr<Directory> directory_;
    std::unique_ptr<File> file_;
};

TEST_F(FaultFileTest, without_a_plan_nothing_fails) {
    EXPECT_THAT(ten_writes(), testing::Each(true));
    EXPECT_EQ(plan_->fired(), 0u);
}

TEST_F(FaultFileTest, the_next_call_fails_once) {
    plan_->fail(Operation::kWrite, 1, 1, EIO);
    EXPECT_THAT(ten_writes(), ElementsAre(false, true, true, true, true, true, true, true, true, true));
    EXPECT_EQ(plan_->fired(), 1u);
}

TEST_F(FaultFileTest, from_the_nth_call_on_as_many_fail_as_were_asked_for) {
    plan_->fail(Operation::kWrite, 4, 3, EIO);
    EXPECT_THAT(ten_writes(), ElementsAre(true, true, true, false, false, false, true, true, true, true));
    EXPECT_EQ(plan_->fired(), 3u);
}

TEST_F(FaultFileTest, a_count_without_end_never_stops_failing) {
    plan_->fail(Operation::kWrite, 2, UINT64_MAX, EIO);
    EXPECT_THAT(ten_writes(), ElementsAre(true, false, false, false, false, false, false, false, false, false));
}

TEST_F(FaultFileTest, a_new_plan_counts_from_its_own_beginning) {
    ten_writes();
    plan_->fail(Operation::kWrite, 2, 1, EIO);
    EXPECT_TRUE(file_->write_at(0, byte_));
    EXPECT_FALSE(file_->write_at(0, byte_));
    plan_->fail(Operation::kWrite, 2, 1, EIO);
    EXPECT_TRUE(file_->write_at(0, byte_));
    EXPECT_FALSE(file_->write_at(0, byte_));
}

TEST_F(FaultFileTest, a_cleared_plan_lets_everything_pass) {
    plan_->fail(Operation::kWrite, 1, UINT64_MAX, EIO);
    plan_->clear();
    EXPECT_THAT(ten_writes(), testing::Each(true));
}

TEST_F(FaultFileTest, other_operations_neither_count_nor_fail) {
    plan_->fail(Operation::kWrite, 2, 1, EIO);
    EXPECT_TRUE(file_->write_at(0, byte_));
    EXPECT_TRUE(file_->sync());
    EXPECT_TRUE(file_->size());
    EXPECT_TRUE(file_->resize(5));
    EXPECT_FALSE(file_->write_at(0, byte_));
}

TEST_F(FaultFileTest, every_operation_can_be_made_to_fail_with_the_error_that_was_asked_for) {
    const auto once = [&](Operation operation) { plan_->fail(operation, 1, 1, ENOSPC); };
    const auto expect_failed = [&](const Status& status) {
        EXPECT_EQ(status.sys_errno(), ENOSPC) << status.message();
        EXPECT_THAT(status.message(), HasSubstr("/memory"));
    };
    std::array<std::byte, 4> into{};
    once(Operation::kOpen);
    expect_failed(directory_->open_file("file", OpenMode::kRead).status());
    once(Operation::kOpen);
    expect_failed(directory_->open_directory("folder").status());
    once(Operation::kCreateDirectory);
    expect_failed(directory_->create_directory("folder").status());
    once(Operation::kRemove);
    expect_failed(directory_->remove_file("file"));
    once(Operation::kRemove);
    expect_failed(directory_->remove_directory("folder"));
    once(Operation::kRead);
    expect_failed(file_->read_at(0, into).status());
    once(Operation::kWrite);
    expect_failed(file_->write_at(0, byte_));
    once(Operation::kSize);
    expect_failed(file_->size().status());
    once(Operation::kResize);
    expect_failed(file_->resize(0));
    once(Operation::kAllocate);
    expect_failed(file_->allocate(0, 1));
    once(Operation::kPunch);
    expect_failed(file_->punch(0, 1));
    once(Operation::kMap);
    expect_failed(file_->map(0, 1).status());
    once(Operation::kSync);
    expect_failed(file_->sync());
    EXPECT_EQ(plan_->fired(), 13u);
    EXPECT_EQ(file_->size().value(), 0u);   // nothing was carried out
    EXPECT_THAT(directory_->list().value(), ElementsAre("file"));
}

TEST_F(FaultFileTest, any_operation_counts_when_any_may_fail) {
    plan_->fail_any(3, 2, EIO);
    EXPECT_TRUE(file_->write_at(0, byte_));
    EXPECT_TRUE(file_->sync());
    EXPECT_FALSE(file_->size());
    EXPECT_FALSE(directory_->create_directory("folder"));
    EXPECT_TRUE(directory_->create_directory("folder"));
}

TEST_F(FaultFileTest, files_and_directories_reached_through_a_faulty_one_share_its_plan) {
    auto folder = directory_->create_directory("folder");
    ASSERT_TRUE(folder);
    auto inner = folder.value()->open_file("inner", OpenMode::kCreateNew);
    ASSERT_TRUE(inner);
    plan_->fail(Operation::kWrite, 2, 1, EIO);
    EXPECT_TRUE(file_->write_at(0, byte_));
    EXPECT_FALSE(inner.value()->write_at(0, byte_));
    plan_->fail(Operation::kOpen, 1, 1, EIO);
    EXPECT_FALSE(directory_->open_directory("folder"));
}

TEST_F(FaultFileTest, a_failing_write_carries_out_the_prefix_it_was_told_to) {
    const auto text = [](std::string_view from) { return std::as_bytes(std::span(from)); };
    const std::array<Bytes, 4> pieces{Bytes{}, text("abc"), Bytes{}, text("def")};
    for (std::size_t prefix = 0; prefix <= 8; ++prefix) {
        SCOPED_TRACE(prefix);
        ASSERT_TRUE(file_->resize(0));
        plan_->fail(Operation::kWrite, 1, 1, EIO, prefix);
        const Status status = file_->write_gather_at(10, pieces);
        EXPECT_EQ(status.sys_errno(), EIO);
        const std::size_t done = std::min<std::size_t>(prefix, 6);
        EXPECT_EQ(file_->size().value(), done == 0 ? 0 : 10 + done);
        std::string got(done, '?');
        ASSERT_EQ(file_->read_at(10, std::as_writable_bytes(std::span(got))).value(), done);
        EXPECT_EQ(got, std::string("abcdef").substr(0, done));
    }
}

}   // namespace
}   // namespace forebay::io
