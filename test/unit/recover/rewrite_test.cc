// Carrying out a replay: what is read how, and what is left alone when it cannot be.
#include "recover/rewrite.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "io/fault_file.h"
#include "io/memory_file.h"
#include "support/engine_fixture.h"

namespace forebay::recover {
namespace {

using test::bytes_of;
using test::same;

class RewriteTest : public testing::Test {
  protected:
    RewriteTest() {
        log_bytes_ = bytes_of(kLogBytes, 1);
        EXPECT_TRUE(directory_->open_file("log", io::OpenMode::kCreateNew).value()->write_at(0, log_bytes_));
        EXPECT_TRUE(directory_->open_file("target", io::OpenMode::kCreateNew).value()->write_at(0, bytes_of(1000, 2)));
        // Long runs and short ones by turns, in another order than that of the log; one of them ends at the log's end.
        place(0, 5, 100'000);
        place(100'000, 300'001, 7);
        place(100'007, 200'000, 90'000);
        place(190'007, 2, 3);
        place(190'010, kLogBytes - 300'000, 300'000);
        place(9 << 20, 17, 64);
        picture_.size = (9 << 20) + 64;
        picture_.commit_sequence = 1;
    }
    void place(std::uint64_t offset, std::uint64_t at, std::uint64_t bytes) {
        picture_.newest.insert({offset, offset + bytes}, Newest{0, true, at}, [](ByteRange, const Newest&) noexcept {});
        picture_.bytes += bytes;
        expected_.resize(std::max<std::size_t>(expected_.size(), offset + bytes));
        std::copy_n(log_bytes_.begin() + static_cast<std::ptrdiff_t>(at), bytes, expected_.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    std::unique_ptr<io::File> open(const std::string& name, const std::shared_ptr<io::FaultPlan>& plan) {
        return io::make_fault_file(std::move(directory_->open_file(name, io::OpenMode::kReadWrite)).value(), plan);
    }
    Result<Rewritten> rewrite() {
        const auto log = open("log", of_log_), target = open("target", of_target_);
        io::File* const logs[] = {log.get()};
        return recover::rewrite(picture_, logs, *target, false, {});
    }
    std::vector<std::byte> target() {
        auto file = std::move(directory_->open_file("target", io::OpenMode::kRead)).value();
        std::vector<std::byte> bytes(file->size().value());
        EXPECT_TRUE(file->read_at(0, bytes));
        return bytes;
    }

    static constexpr std::uint64_t kLogBytes = 3'000'017;
    std::unique_ptr<io::Directory> directory_ = io::make_memory_directory("/somewhere");
    std::shared_ptr<io::FaultPlan> of_log_ = std::make_shared<io::FaultPlan>(), of_target_ = std::make_shared<io::FaultPlan>();
    std::vector<std::byte> log_bytes_, expected_;
    Picture picture_;
};

TEST_F(RewriteTest, writes_what_adjoins_in_one_write) {
    const auto done = rewrite();
    ASSERT_TRUE(done) << done.status().message();
    EXPECT_EQ(done.value().writes, 2u);
    EXPECT_EQ(done.value().bytes, picture_.bytes);
    EXPECT_TRUE(same(target(), expected_));
}

TEST_F(RewriteTest, reads_a_log_that_cannot_be_mapped) {
    of_log_->fail(io::Operation::kMap, 1, UINT64_MAX, ENODEV);
    const auto done = rewrite();
    ASSERT_TRUE(done) << done.status().message();
    EXPECT_EQ(of_log_->fired(), 1u);
    EXPECT_EQ(done.value().writes, 2u);
    EXPECT_TRUE(same(target(), expected_));
}

TEST_F(RewriteTest, reads_what_the_system_cannot_load_from_the_mapping) {
    of_target_->fail(io::Operation::kWrite, 1, 1, EFAULT);
    const auto done = rewrite();
    ASSERT_TRUE(done) << done.status().message();
    EXPECT_EQ(of_target_->fired(), 1u);
    EXPECT_TRUE(same(target(), expected_));

    of_target_->fail(io::Operation::kWrite, 1, 1, EFAULT);
    of_log_->fail(io::Operation::kRead, 1, 1, EIO);
    EXPECT_EQ(rewrite().status().sys_errno(), EIO) << "the log's own error";
}

TEST_F(RewriteTest, changes_nothing_unless_all_that_it_needs_can_be_read) {
    const auto before = target();
    of_log_->fail(io::Operation::kMap, 1, UINT64_MAX, ENODEV);
    for (std::uint64_t nth = 1; nth <= 5; ++nth) {
        auto reads = std::make_shared<io::FaultPlan>();
        reads->fail(io::Operation::kRead, nth, 1, EIO);
        const auto log = io::make_fault_file(open("log", of_log_), reads), target_file = open("target", of_target_);
        io::File* const logs[] = {log.get()};
        EXPECT_EQ(recover::rewrite(picture_, logs, *target_file, false, {}).status().sys_errno(), EIO);
        EXPECT_EQ(reads->fired(), 1u);
        EXPECT_TRUE(same(target(), before));
    }
}

TEST_F(RewriteTest, refuses_a_log_that_has_become_shorter) {
    const auto before = target();
    ASSERT_TRUE(directory_->open_file("log", io::OpenMode::kReadWrite).value()->resize(kLogBytes - 1));
    EXPECT_EQ(rewrite().status().code(), Code::kCorrupt);
    EXPECT_TRUE(same(target(), before));
}

}   // namespace
}   // namespace forebay::recover
