// Carrying out a replay: what is read how, and what is left alone when it cannot be.
#include "recover/rewrite.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <latch>
#include <random>
#include <thread>

#include "io/fault_file.h"
#include "io/memory_file.h"
#include "io/posix_file.h"
#include "support/engine_fixture.h"
#include "support/no_thread.h"
#include "support/scripted_file.h"
#include "support/seeds.h"

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
        std::copy_n(log_bytes_.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                    expected_.begin() + static_cast<std::ptrdiff_t>(offset));
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

    static constexpr std::uint64_t kLogBytes = 3'000'017, kLooks = 5, kPieces = 6;
    std::unique_ptr<io::Directory> directory_ = io::make_memory_directory("/somewhere");
    std::shared_ptr<io::FaultPlan> of_log_ = std::make_shared<io::FaultPlan>(),
                                   of_target_ = std::make_shared<io::FaultPlan>();
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

TEST_F(RewriteTest, tells_that_a_log_cannot_be_read_any_more_and_can_be_repeated) {
    of_log_->fail(io::Operation::kMap, 1, UINT64_MAX, ENODEV);
    for (std::uint64_t nth = 1; nth <= kLooks + kPieces; ++nth) {
        auto reads = std::make_shared<io::FaultPlan>();
        reads->fail(io::Operation::kRead, nth, 1, EIO);
        const auto log = io::make_fault_file(open("log", of_log_), reads), target_file = open("target", of_target_);
        io::File* const logs[] = {log.get()};
        EXPECT_EQ(recover::rewrite(picture_, logs, *target_file, false, {}).status().sys_errno(), EIO) << nth;
        EXPECT_EQ(reads->fired(), 1u);
        ASSERT_TRUE(recover::rewrite(picture_, logs, *target_file, false, {}));
        EXPECT_TRUE(same(target(), expected_));
    }
}

TEST_F(RewriteTest, tells_that_the_target_cannot_be_written_to_and_can_be_repeated) {
    for (std::uint64_t nth = 1; nth <= 2; ++nth) {
        of_target_->clear();
        of_target_->fail(io::Operation::kWrite, nth, 1, ENOSPC, 1000);
        EXPECT_EQ(rewrite().status().sys_errno(), ENOSPC);
        EXPECT_EQ(of_target_->fired(), nth);
        ASSERT_TRUE(rewrite());
        EXPECT_TRUE(same(target(), expected_));
    }
}

TEST_F(RewriteTest, two_writes_are_under_way_at_a_time) {
    const auto log = open("log", of_log_);
    io::File* const logs[] = {log.get()};
    std::latch both(2);   // each write waits for another one to be under way
    const auto in_pairs = test::scripted(open("target", of_target_), [&](const test::FileCall& call) {
        if (call.operation != io::Operation::kWrite) return Status::ok();
        both.count_down();
        for (int i = 0; i < 60'000 && !both.try_wait(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return both.try_wait() ? Status::ok() : Status(Code::kInternal, "one at a time");
    });
    const auto done = recover::rewrite(picture_, logs, *in_pairs, false, {});
    ASSERT_TRUE(done) << done.status().message();
    EXPECT_TRUE(same(target(), expected_));
}

TEST_F(RewriteTest, one_thread_is_enough) {
    const auto log = open("log", of_log_), target_file = open("target", of_target_);
    io::File* const logs[] = {log.get()};
    const auto done = recover::rewrite(picture_, logs, *target_file, false, {}, test::no_thread);
    ASSERT_TRUE(done) << done.status().message();
    EXPECT_EQ(done.value().writes, 2u);
    EXPECT_TRUE(same(target(), expected_));
}

TEST_F(RewriteTest, tells_of_each_write_once) {
    const auto log = open("log", of_log_), target_file = open("target", of_target_);
    io::File* const logs[] = {log.get()};
    std::vector<std::uint64_t> told;   // one call at a time: no lock
    ASSERT_TRUE(recover::rewrite(picture_, logs, *target_file, false,
                                 [&](std::uint64_t bytes) { told.push_back(bytes); }));
    std::sort(told.begin(), told.end());
    EXPECT_EQ(told, (std::vector<std::uint64_t>{64, picture_.bytes - 64}));
}

TEST_F(RewriteTest, changes_nothing_unless_all_that_it_needs_can_be_read) {
    const auto before = target();
    of_log_->fail(io::Operation::kMap, 1, UINT64_MAX, ENODEV);
    for (std::uint64_t nth = 1; nth <= kLooks; ++nth) {
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

TEST_F(RewriteTest, a_long_extent_of_a_file_without_a_size_is_cut_at_whole_stripes) {
    constexpr std::uint64_t kBegin = 1 << 20, kBytes = 20 << 20;
    const std::vector<std::byte> bytes = bytes_of(kBytes + 3, 4);
    ASSERT_TRUE(directory_->open_file("long", io::OpenMode::kCreateNew).value()->write_at(0, bytes));
    Picture picture;
    picture.newest.insert({kBegin, kBegin + kBytes}, Newest{0, true, 3}, [](ByteRange, const Newest&) noexcept {});
    picture.bytes = kBytes;
    const auto log = open("long", of_log_), target_file = open("target", of_target_);
    io::File* const logs[] = {log.get()};
    const auto done = recover::rewrite(picture, logs, *target_file, false, {});
    ASSERT_TRUE(done) << done.status().message();
    EXPECT_EQ(done.value().writes, 3u) << "up to 8 MiB, up to 16 MiB, the rest";
    EXPECT_EQ(done.value().size, kBegin + kBytes);
    const auto after = target();
    EXPECT_TRUE(std::equal(bytes.begin() + 3, bytes.end(), after.begin() + kBegin, after.end()));
}

TEST_F(RewriteTest, many_pieces_of_one_write_are_written_in_several) {
    constexpr std::uint64_t kMany = 40'000;
    Picture picture;
    // From the last to the first: none adjoins its neighbour in the log.
    for (std::uint64_t i = 0; i < kMany; ++i)
        picture.newest.insert({i * 8, i * 8 + 8}, Newest{0, true, (kMany - 1 - i) * 8},
                              [](ByteRange, const Newest&) noexcept {});
    picture.bytes = kMany * 8;
    picture.size = kMany * 8;
    const auto log = open("log", of_log_), target_file = open("target", of_target_);
    io::File* const logs[] = {log.get()};
    const auto done = recover::rewrite(picture, logs, *target_file, false, {});
    ASSERT_TRUE(done) << done.status().message();
    EXPECT_EQ(done.value().writes, 3u);
    const auto after = target();
    for (std::uint64_t i = 0; i < kMany; ++i)
        ASSERT_TRUE(std::equal(after.begin() + static_cast<std::ptrdiff_t>(i * 8),
                               after.begin() + static_cast<std::ptrdiff_t>(i * 8 + 8),
                               log_bytes_.begin() + static_cast<std::ptrdiff_t>((kMany - 1 - i) * 8)));
}

TEST_F(RewriteTest, an_extent_at_the_end_of_all_offsets_is_not_forgotten) {
    Picture picture;
    picture.newest.insert({kOffsetMax - 100, kOffsetMax}, Newest{0, true, 0}, [](ByteRange, const Newest&) noexcept {});
    picture.bytes = 100;
    const auto log = open("log", of_log_);
    const std::string path = testing::TempDir() + "forebay-rewrite-" + std::to_string(::getpid());
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_GE(descriptor, 0);
    ::unlink(path.c_str());
    const auto real = io::adopt_posix_file(descriptor, path);
    io::File* const logs[] = {log.get()};
    EXPECT_EQ(recover::rewrite(picture, logs, *real, false, {}).status().sys_errno(), EINVAL)
        << "no file has room for it";
}

// Two logs, extents of any length across the borders of writes, zeros that were cut in between, a file that ends in the
// middle of one.
TEST(RewriteAtRandom, gives_the_picture) {
    constexpr std::uint64_t kFile = 20 << 20, kLog = 3 << 20;
    std::uint64_t writes = 0;
    for (const std::uint64_t seed : test::seeds("gives_the_picture", 5, {1, 2, 3})) {
        std::mt19937_64 random(seed);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        auto directory = io::make_memory_directory("/somewhere");
        std::vector<std::vector<std::byte>> content;
        std::vector<std::unique_ptr<io::File>> files;
        for (const char* name : {"one", "other"}) {
            content.push_back(bytes_of(kLog, content.size() + 1));
            files.push_back(std::move(directory->open_file(name, io::OpenMode::kCreateNew)).value());
            ASSERT_TRUE(files.back()->write_at(0, content.back()));
        }
        const auto target = std::move(directory->open_file("target", io::OpenMode::kCreateNew)).value();
        std::vector<std::byte> expected = bytes_of(below(kFile), 3);
        ASSERT_TRUE(target->write_at(0, expected));
        Picture picture;
        picture.commit_sequence = 1;
        picture.size = kFile / 2 + below(kFile / 2);
        expected.resize(kFile);
        for (int i = 0; i < 300; ++i) {
            const std::uint64_t bytes = 1 + below(i % 10 == 0 ? kLog : std::uint64_t{40'000}),
                                offset = below(kFile - bytes), log = below(2), at = below(kLog - bytes);
            const bool zeros = below(8) == 0;
            picture.newest.insert({offset, offset + bytes},
                                  zeros ? Newest{} : Newest{static_cast<std::uint32_t>(log), true, at},
                                  [](ByteRange, const Newest&) noexcept {});
            const auto to = expected.begin() + static_cast<std::ptrdiff_t>(offset);
            if (zeros) std::fill_n(to, bytes, std::byte{});
            else std::copy_n(content[log].begin() + static_cast<std::ptrdiff_t>(at), bytes, to);
        }
        picture.newest.for_each({0, *picture.size}, [&](ByteRange range, const Newest& newest) {
            if (newest.log != Newest::kZeros) picture.bytes += range.size();
        });
        expected.resize(*picture.size);
        io::File* const logs[] = {files[0].get(), files[1].get()};
        const auto done = recover::rewrite(picture, logs, *target, false, {});
        ASSERT_TRUE(done) << done.status().message();
        EXPECT_EQ(done.value().bytes, picture.bytes);
        EXPECT_EQ(done.value().size, *picture.size);
        if (seed <= test::kFixedSeedMax) writes += done.value().writes;
        std::vector<std::byte> got(target->size().value());
        ASSERT_TRUE(target->read_at(0, got));
        EXPECT_TRUE(same(got, expected)) << "seed " << seed;
    }
    EXPECT_GT(writes, 3u * 20 / 8);
}

}   // namespace
}   // namespace forebay::recover
