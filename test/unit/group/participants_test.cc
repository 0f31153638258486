#include "group/participants.h"

#include <gtest/gtest.h>

#include <thread>

#include "area/process.h"
#include "group/own_log.h"
#include "io/futex.h"
#include "io/memory_file.h"

namespace forebay::group {
namespace {

TEST(Participants, one_that_has_got_room_lacks_it_no_more_although_it_does_not_run_yet) {
    const auto directory = io::make_memory_directory("area");
    auto made = Board::create(std::move(directory->open_file("board", io::OpenMode::kCreateNew)).value(), 2, 5);
    ASSERT_TRUE(made) << made.status().message();
    auto opened = Board::open(std::move(directory->open_file("board", io::OpenMode::kReadWrite)).value(), 2);
    ASSERT_TRUE(opened) << opened.status().message();
    const auto process = area::identify_this_process().value();
    Participants drainer({std::move(made).value(), 0, 0, {process, process}, 1});
    Participants writer({std::move(opened).value(), 1, 0, {process, process}, 1});
    EXPECT_FALSE(drainer.lacks_room());

    BoardHeader& header = drainer.header();
    const std::uint32_t before = header.bell.doorbell.load();
    OwnLog log(writer);
    const std::uint64_t seen = log.released();
    std::jthread waiter([&] { (void)log.wait_for_room(seen); });
    while (header.bell.doorbell.load() == before)
        io::wait_while(header.bell.doorbell, before, std::chrono::seconds(10));
    EXPECT_TRUE(drainer.lacks_room());
    drainer.row(1).released.store(seen + 1);   // the writer is not woken
    EXPECT_FALSE(drainer.lacks_room());
    io::raise_and_wake(header.progress);
    waiter.join();
    EXPECT_FALSE(drainer.lacks_room());
}

}   // namespace
}   // namespace forebay::group
