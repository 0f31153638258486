#include "group/board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/memory_file.h"
#include "support/engine_fixture.h"

namespace forebay::group {
namespace {

class BoardTest : public ::testing::Test {
  protected:
    BoardTest() : directory_(io::make_memory_directory("area")) {
        board_.emplace(std::move(Board::create(file(io::OpenMode::kCreateNew), 3, 5)).value());
    }
    std::unique_ptr<io::File> file(io::OpenMode mode = io::OpenMode::kReadWrite) {
        return std::move(directory_->open_file("board", mode)).value();
    }
    // A file of its own with these bytes.
    std::unique_ptr<io::File> with(const std::vector<std::byte>& bytes) {
        auto made = io::make_memory_file("board");
        EXPECT_TRUE(made->write_at(0, bytes));
        return made;
    }
    std::vector<std::byte> bytes() {
        std::vector<std::byte> all(file()->size().value());
        EXPECT_TRUE(file()->read_at(0, all));
        return all;
    }

    std::unique_ptr<io::Directory> directory_;
    std::optional<Board> board_;
};

TEST_F(BoardTest, who_opens_it_sees_what_its_maker_stores_and_the_other_way_round) {
    auto other = Board::open(file(), 3);
    ASSERT_TRUE(other) << other.status().message();
    EXPECT_EQ(board_->header().sequence.load(), 1u);
    board_->header().sequence.store(77);
    EXPECT_EQ(other.value().header().sequence.load(), 77u);
    other.value().row(2).adopted.store(4);
    EXPECT_EQ(board_->row(2).adopted.load(), 4u);
    EXPECT_EQ(board_->row(1).adopted.load(), 0u);
    for (std::uint64_t participant = 0; participant < 3; ++participant)
        for (std::uint64_t order = 0; order < 5; ++order)
            board_->place(participant, order).store(10 * participant + order);
    for (std::uint64_t participant = 0; participant < 3; ++participant)
        for (std::uint64_t order = 0; order < 5; ++order)
            EXPECT_EQ(other.value().place(participant, order).load(), 10 * participant + order);
    EXPECT_EQ(&board_->place(1, 7), &board_->place(1, 2)) << "a ring";
}

TEST_F(BoardTest, one_for_another_number_of_participants_is_refused) {
    for (const std::uint64_t participants : {0, 1, 2, 4, 1000000})
        EXPECT_EQ(Board::open(file(), participants).status().code(), Code::kCorrupt) << participants;
}

TEST_F(BoardTest, one_that_was_cut_short_is_refused_wherever_it_ends) {
    const auto whole = bytes();
    ASSERT_TRUE(Board::open(with(whole), 3));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        const auto opened = Board::open(with({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), 3);
        ASSERT_EQ(opened.status().code(), Code::kCorrupt) << size;
    }
}

TEST_F(BoardTest, one_of_another_make_or_version_is_refused) {
    for (const std::size_t at : {offsetof(BoardHeader, magic), offsetof(BoardHeader, version)}) {
        auto damaged = bytes();
        damaged[at] ^= std::byte{1};
        EXPECT_EQ(Board::open(with(damaged), 3).status().code(), Code::kCorrupt);
    }
    EXPECT_EQ(Board::open(with(std::vector<std::byte>(4096)), 3).status().code(), Code::kCorrupt);
    EXPECT_EQ(Board::open(with(test::bytes_of(4096, 1)), 3).status().code(), Code::kCorrupt);
}

TEST_F(BoardTest, a_ring_that_does_not_fit_is_refused) {
    for (const std::uint64_t ring :
         {std::uint64_t{0}, std::uint64_t{6}, std::uint64_t{1} << 40, ~std::uint64_t{0}, (~std::uint64_t{0}) / 24}) {
        auto damaged = bytes();
        std::memcpy(damaged.data() + offsetof(BoardHeader, ring), &ring, sizeof ring);
        EXPECT_EQ(Board::open(with(damaged), 3).status().code(), Code::kCorrupt) << ring;
    }
}

TEST_F(BoardTest, making_one_fails_where_the_device_is_full) {
    auto plan = std::make_shared<io::FaultPlan>();
    plan->fail(io::Operation::kAllocate, 1, 1, ENOSPC);
    EXPECT_EQ(Board::create(io::make_fault_file(io::make_memory_file("board"), plan), 3, 5).status().code(),
              Code::kNoSpace);
    plan->fail(io::Operation::kMap, 1, 1, ENOMEM);
    EXPECT_EQ(Board::create(io::make_fault_file(io::make_memory_file("board"), plan), 3, 5).status().sys_errno(),
              ENOMEM);
}

}   // namespace
}   // namespace forebay::group
