// Golden superblocks: the first 48 bytes of empty files made by HDF5 1.14.5, killed after a flush or closed.
#include "recover/superblock.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "io/fault_file.h"
#include "io/memory_file.h"
#include "recover/lookup3.h"
#include "support/engine_fixture.h"

namespace forebay::recover {
namespace {

using test::same;

std::vector<std::byte> from_hex(std::string_view hex) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<std::byte>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
    return bytes;
}

// H5Pset_libver_bounds(V110, V114): version 3.
constexpr std::string_view kOpen =
    "894844460d0a1a0a030808010000000000000000ffffffffffffffffc300000000000000300000000000000098660be8";
constexpr std::string_view kClosed =
    "894844460d0a1a0a030808000000000000000000ffffffffffffffffc3000000000000003000000000000000061a6137";
constexpr std::string_view kSwmr =
    "894844460d0a1a0a030808050000000000000000ffffffffffffffffc3000000000000003000000000000000278cb993";
// With a user block of 512 bytes.
constexpr std::string_view kOpenBehindUserBlock =
    "894844460d0a1a0a030808010002000000000000ffffffffffffffffc3020000000000003000000000000000d1237936";
// H5Pset_libver_bounds(V18, V18): version 2; with a user block of 2048 bytes, and without.
constexpr std::string_view kOldClosedBehindUserBlock =
    "894844460d0a1a0a020808000008000000000000ffffffffffffffffc3080000000000003000000000000000eff073b6";
constexpr std::string_view kOldOpen =
    "894844460d0a1a0a020808010000000000000000ffffffffffffffffc3000000000000003000000000000000ab24cdd7";

class SuperblockTest : public testing::Test {
  protected:
    Mark clear(std::uint64_t user_block, std::vector<std::byte> superblock) {
        auto content = test::bytes_of(user_block, 1);
        content.insert(content.end(), superblock.begin(), superblock.end());
        const auto rest = test::bytes_of(100, 2);
        content.insert(content.end(), rest.begin(), rest.end());
        before_ = content;
        file_ = io::make_memory_file("run.h5");
        EXPECT_TRUE(file_->write_at(0, content));
        const auto mark = clear_open_mark(*file_);
        EXPECT_TRUE(mark) << mark.status().message();
        return mark ? mark.value() : Mark::kUnreadable;
    }
    std::vector<std::byte> after() {
        std::vector<std::byte> bytes(file_->size().value());
        EXPECT_TRUE(file_->read_at(0, bytes));
        return bytes;
    }
    std::unique_ptr<io::File> file_;
    std::vector<std::byte> before_;
};

TEST(Lookup3, gives_the_published_values) {
    const auto of = [](std::string_view text) {
        return lookup3({reinterpret_cast<const std::byte*>(text.data()), text.size()});
    };
    // driver5() of lookup3.c.
    EXPECT_EQ(of(""), 0xdeadbeefu);
    EXPECT_EQ(of("Four score and seven years ago"), 0x17770551u);
}

TEST(Lookup3, is_what_hdf5_has_stored) {
    for (const std::string_view golden :
         {kOpen, kClosed, kSwmr, kOpenBehindUserBlock, kOldClosedBehindUserBlock, kOldOpen}) {
        const auto bytes = from_hex(golden);
        std::uint32_t stored;
        std::memcpy(&stored, bytes.data() + 44, sizeof stored);
        EXPECT_EQ(lookup3(std::span(bytes).first(44)), stored) << golden;
    }
}

TEST_F(SuperblockTest, of_a_file_that_was_open_becomes_that_of_a_closed_one) {
    EXPECT_EQ(clear(0, from_hex(kOpen)), Mark::kCleared);
    auto expected = from_hex(kClosed);
    expected.insert(expected.end(), before_.begin() + 48, before_.end());
    EXPECT_TRUE(same(after(), expected));
}

TEST_F(SuperblockTest, of_a_swmr_writer_loses_both_marks) {
    EXPECT_EQ(clear(0, from_hex(kSwmr)), Mark::kCleared);
    auto bytes = after();
    bytes.resize(48);
    EXPECT_TRUE(same(bytes, from_hex(kClosed)));
}

TEST_F(SuperblockTest, is_found_behind_user_blocks) {
    for (const std::uint64_t user_block : {512u, 1024u, 2048u, 65536u}) {
        EXPECT_EQ(clear(user_block, from_hex(kOpenBehindUserBlock)), Mark::kCleared) << user_block;
        EXPECT_EQ(after()[user_block + 11], std::byte{0});
    }
    EXPECT_EQ(clear(100, from_hex(kOpen)), Mark::kNone) << "no place for a superblock";
    EXPECT_TRUE(same(after(), before_));
}

TEST_F(SuperblockTest, of_version_2_is_treated_alike) {
    EXPECT_EQ(clear(0, from_hex(kOldOpen)), Mark::kCleared);
    EXPECT_EQ(after()[11], std::byte{0});
    EXPECT_EQ(clear(2048, from_hex(kOldClosedBehindUserBlock)), Mark::kNone);
    EXPECT_TRUE(same(after(), before_));
}

TEST_F(SuperblockTest, without_a_mark_is_left_alone) {
    EXPECT_EQ(clear(0, from_hex(kClosed)), Mark::kNone);
    EXPECT_TRUE(same(after(), before_));
}

TEST_F(SuperblockTest, of_another_version_is_left_alone) {
    for (const unsigned version : {0u, 1u, 4u}) {
        auto other = from_hex(kOpen);
        other[8] = static_cast<std::byte>(version);
        EXPECT_EQ(clear(0, other), Mark::kNone) << version;
        EXPECT_TRUE(same(after(), before_));
    }
}

TEST_F(SuperblockTest, with_any_bit_flipped_is_never_changed) {
    for (std::size_t bit = 8 * 9; bit < 8 * 48; ++bit) {
        auto damaged = from_hex(kOpen);
        damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        EXPECT_EQ(clear(0, damaged), Mark::kUnreadable) << bit;
        EXPECT_TRUE(same(after(), before_));
    }
}

TEST_F(SuperblockTest, of_a_file_of_any_length_is_read_within_its_bounds) {
    const auto whole = from_hex(kOpen);
    for (std::size_t size = 0; size < whole.size(); ++size) {
        auto file = io::make_memory_file("short.h5");
        ASSERT_TRUE(file->write_at(0, std::span(whole).first(size)));
        const auto mark = clear_open_mark(*file);
        ASSERT_TRUE(mark);
        EXPECT_NE(mark.value(), Mark::kCleared) << size;
    }
}

TEST_F(SuperblockTest, that_cannot_be_read_or_written_is_an_error) {
    for (const io::Operation operation : {io::Operation::kSize, io::Operation::kRead, io::Operation::kWrite}) {
        EXPECT_EQ(clear(0, from_hex(kClosed)), Mark::kNone);
        ASSERT_TRUE(file_->write_at(0, from_hex(kOpen)));
        auto plan = std::make_shared<io::FaultPlan>();
        plan->fail(operation, 1, 1, EIO);
        auto failing = io::make_fault_file(std::move(file_), plan);
        EXPECT_EQ(clear_open_mark(*failing).status().sys_errno(), EIO);
    }
}

}   // namespace
}   // namespace forebay::recover
