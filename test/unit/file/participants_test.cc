// What participants of a node see of each other's writes, and what reaches the target: one thread decides
// the order of everything but the drain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "support/left_threads.h"
#include "support/scripted_file.h"
#include "support/team_files.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::bytes_of;
using test::Participants;
using test::same;
using test::tiny_options;

TEST(Participants, read_what_any_of_them_has_written_before_anything_is_drained) {
    Participants node(3, test::small_options());
    for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(node.write(i, i * 1000, bytes_of(1000, i)));
    for (std::size_t reader = 0; reader < 3; ++reader)
        for (std::size_t writer = 0; writer < 3; ++writer)
            EXPECT_TRUE(same(node.read(reader, writer * 1000, 1000), bytes_of(1000, writer)))
                << reader << " reads what " << writer << " wrote";
    EXPECT_TRUE(node.target().contents().empty());
    EXPECT_EQ(node.file(0).counters().staged + node.file(1).counters().staged + node.file(2).counters().staged, 3000u);
    ASSERT_TRUE(node.close());
    EXPECT_EQ(node.target().contents().size(), 3000u);
}

TEST(Participants, overwrite_each_other_in_the_order_in_which_they_write) {
    Participants node(3, test::small_options());
    std::uint64_t seed = 0;
    test::PlainBytes expected;
    for (const std::size_t writer : {0, 1, 2, 1, 0, 2, 2, 0, 1, 0, 2, 1}) {
        const auto bytes = bytes_of(500 + 100 * writer, ++seed);
        ASSERT_TRUE(node.write(writer, 37 * (seed % 5), bytes));
        expected.write(37 * (seed % 5), bytes);
        for (std::size_t reader = 0; reader < 3; ++reader)
            ASSERT_TRUE(same(node.read(reader, 0, expected.content.size()), expected.content)) << "write " << seed;
    }
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

// Its segments were given back before this participant looked for the first time; the end of the file was
// written first, so that nothing which is left tells of it.
TEST(Participants, read_what_was_drained_before_they_looked) {
    Participants node(3, tiny_options());
    node.listen();
    test::PlainBytes expected;
    for (std::uint64_t i = 100; i-- > 0;) {
        const auto bytes = bytes_of(4000, i);
        ASSERT_TRUE(node.write(1, i * 4000, bytes));
        expected.write(i * 4000, bytes);
    }
    ASSERT_GT(node.group(1).log().released(), 0u);
    EXPECT_TRUE(same(node.read(2, 0, expected.content.size()), expected.content));
    EXPECT_TRUE(same(node.read(1, 0, expected.content.size()), expected.content)) << "its own";
    EXPECT_EQ(node.file(2).size(), expected.content.size());
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

// The reader has followed a log whose segments are used again afterwards.
TEST(Participants, look_again_when_a_segment_that_they_know_is_used_again) {
    Participants node(3, tiny_options());
    node.listen();
    test::PlainBytes expected;
    for (std::uint64_t round = 0; round < 5; ++round)
        for (std::uint64_t i = 0; i < 20; ++i) {
            const std::uint64_t offset = (round * 20 + i) * 4000;
            const auto bytes = bytes_of(4000, offset);
            ASSERT_TRUE(node.write(1, offset, bytes));
            expected.write(offset, bytes);
            if (i % 3 == 0) {
                ASSERT_TRUE(same(node.read(2, 0, expected.content.size()), expected.content));
            }
        }
    EXPECT_GT(node.group(1).log().released(), 5u);
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

// The older record stays in a log because something beside it is still needed; the newer one has been drained,
// and its segment given back.
TEST(Participants, never_see_an_older_record_again_once_a_newer_one_is_drained) {
    Participants node(4, tiny_options());
    node.listen();
    const auto older = bytes_of(1000, 1), newer = bytes_of(1000, 2);
    ASSERT_TRUE(node.write(1, 0, older));
    ASSERT_TRUE(node.write(1, 5000, bytes_of(100, 3), ByteClass::kMetadata));   // held: keeps the segment
    ASSERT_TRUE(node.write(2, 0, newer));
    std::uint64_t offset = 10000;
    while (node.group(2).log().released() < 1) {   // until the segment with the newer record has gone
        ASSERT_TRUE(node.write(2, offset, bytes_of(4000, offset)));
        offset += 4000;
    }
    EXPECT_EQ(node.group(1).log().released(), 0u);
    EXPECT_TRUE(same(node.read(0, 0, 1000), newer)) << "the drainer";
    EXPECT_TRUE(same(node.read(1, 0, 1000), newer)) << "who wrote the older one";
    EXPECT_TRUE(same(node.read(2, 0, 1000), newer)) << "who wrote the newer one";
    EXPECT_TRUE(same(node.read(3, 0, 1000), newer)) << "who wrote nothing";
    ASSERT_TRUE(node.close());
    const auto contents = node.target().contents();
    EXPECT_TRUE(same({contents.begin(), contents.begin() + 1000}, newer));
}

// As before, but the older record has been drained when the newer one comes.
TEST(Participants, never_see_a_drained_record_again_once_a_newer_one_is_drained) {
    Participants node(4, tiny_options());
    node.listen();
    const auto older = bytes_of(1000, 1), newer = bytes_of(1000, 2);
    ASSERT_TRUE(node.write(1, 0, older));
    ASSERT_TRUE(node.write(1, 5000, bytes_of(100, 3), ByteClass::kMetadata));   // held: keeps the segment
    std::uint64_t offset = 10000;
    const auto fill_until_released = [&](std::uint64_t order) {
        while (node.group(2).log().released() < order) {
            ASSERT_TRUE(node.write(2, offset, bytes_of(4000, offset)));
            offset += 4000;
        }
    };
    fill_until_released(2);
    auto contents = node.target().contents();
    contents.resize(1000);
    ASSERT_TRUE(same(contents, older)) << "drained";
    ASSERT_TRUE(node.write(2, 0, newer));
    fill_until_released(node.group(2).log().released() + 8);
    EXPECT_EQ(node.group(1).log().released(), 0u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(same(node.read(i, 0, 1000), newer)) << "participant " << i;
    ASSERT_TRUE(node.close());
    contents = node.target().contents();
    contents.resize(1000);
    EXPECT_TRUE(same(contents, newer));
}

// The drainer keeps the record of a cut until the cut is in the target, and with it everybody's segments.
TEST(Participants, find_room_after_a_cut_that_is_not_committed) {
    Participants node(2, tiny_options(), nullptr, bytes_of(20000, 1));
    node.listen();
    ASSERT_TRUE(node.truncate(5000));
    test::PlainBytes expected{bytes_of(20000, 1)};
    expected.content.resize(5000);
    for (std::uint64_t i = 0; i < 100; ++i) {
        const auto bytes = bytes_of(4000, i);
        ASSERT_TRUE(node.write(1, 30000 + i * 4000, bytes));
        expected.write(30000 + i * 4000, bytes);
    }
    EXPECT_TRUE(same(node.read(1, 0, expected.content.size()), expected.content));
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

// Zeros in place of the end would take as long as writing it.
TEST(Participants, get_room_by_a_cut_of_the_target_if_held_bytes_of_a_file_that_was_cut_fill_the_logs) {
    constexpr std::uint64_t kLong = 4 << 20, kBytes = 3000, kWrites = 60;
    const auto script = std::make_shared<test::Script>();
    Participants::Around around;
    around.target = [&](std::unique_ptr<io::File> file) {
        return std::make_unique<test::ScriptedFile>(std::move(file), script);
    };
    test::PlainBytes expected{bytes_of(kLong, 1)};
    Participants node(2, tiny_options(), nullptr, expected.content, false, around);
    node.listen();
    ASSERT_TRUE(node.truncate(5000));
    expected.content.resize(5000);
    for (std::uint64_t i = 0; i < kWrites; ++i) {
        const auto bytes = bytes_of(kBytes, i);
        ASSERT_TRUE(node.write(1, i % 2 * 1000, bytes, ByteClass::kMetadata));
        expected.write(i % 2 * 1000, bytes);
    }
    EXPECT_GE(node.file(0).counters().guarantee_given_up, kLong - 5000);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(same(node.read(i, 0, 5000), expected.content)) << i;
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
    std::uint64_t written = 0;
    for (const test::FileCall& call : script->calls(io::Operation::kWrite)) written += call.size;
    EXPECT_LE(written, kWrites * kBytes);
}

TEST(Participants, see_zeros_where_the_file_was_cut_and_grew_again) {
    Participants node(3, test::small_options(), nullptr, bytes_of(20000, 1));
    ASSERT_TRUE(node.write(1, 10000, bytes_of(20000, 2)));
    ASSERT_TRUE(node.truncate(12000));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(node.file(i).size(), 12000u);
    ASSERT_TRUE(node.truncate(40000));
    ASSERT_TRUE(node.write(2, 30000, bytes_of(100, 3)));
    test::PlainBytes expected{bytes_of(20000, 1)};
    expected.write(10000, bytes_of(20000, 2));
    expected.content.resize(12000);
    expected.content.resize(40000);
    expected.write(30000, bytes_of(100, 3));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same(node.read(i, 0, 40000), expected.content)) << i;
    ASSERT_TRUE(node.commit());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same(node.read(i, 0, 40000), expected.content)) << i;
    ASSERT_TRUE(node.drain());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same(node.read(i, 0, 40000), expected.content)) << i;
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

// ---- room --------------------------------------------------------------------------------------------

TEST(Participants, wait_for_room_and_go_on_while_the_drainer_drains) {
    Participants node(3, tiny_options());
    node.listen();
    test::PlainBytes expected;
    for (std::uint64_t i = 0; i < 200; ++i) {
        const auto bytes = bytes_of(3000, i);
        ASSERT_TRUE(node.write(1 + i % 2, i * 3000, bytes));
        expected.write(i * 3000, bytes);
    }
    EXPECT_GT(node.group(1).log().released(), 10u);
    EXPECT_GT(node.group(2).log().released(), 10u);
    EXPECT_EQ(node.file(0).counters().guarantee_given_up, 0u) << "everything lay beyond the committed end";
    ASSERT_TRUE(node.close());
    EXPECT_EQ(node.file(1).counters().staged + node.file(2).counters().staged, 600000u);
    EXPECT_EQ(node.file(1).counters().through + node.file(2).counters().through, 0u);
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

TEST(Participants, give_up_held_bytes_only_when_nothing_else_gives_room_and_count_them) {
    Participants node(2, tiny_options());
    node.listen();
    test::PlainBytes expected;
    const auto write = [&](std::uint64_t i, ByteClass byte_class) {
        const auto bytes = bytes_of(3000, i);
        ASSERT_TRUE(node.write(1, i * 3000, bytes, byte_class));
        expected.write(i * 3000, bytes);
    };
    for (std::uint64_t i = 0; i < 10; ++i) write(i, ByteClass::kMetadata);
    node.file(0).membership().poll(false);
    EXPECT_EQ(node.file(0).counters().held, 30000u);
    EXPECT_EQ(node.file(0).counters().guarantee_given_up, 0u);
    EXPECT_TRUE(node.target().contents().empty());
    for (std::uint64_t i = 10; i < 40; ++i) write(i, ByteClass::kMetadata);
    EXPECT_GT(node.file(0).counters().guarantee_given_up, 0u);
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

TEST(Participants, do_not_wait_for_room_that_a_failed_target_will_not_give) {
    auto plan = std::make_shared<io::FaultPlan>();
    Participants node(2, tiny_options(), plan);
    node.listen();
    plan->fail(io::Operation::kWrite, 1, UINT64_MAX, EIO);
    Status written;
    std::uint64_t taken = 0;
    for (std::uint64_t i = 0; i < 100 && written; ++i) {
        written = node.write(1, i * 3000, bytes_of(3000, i));
        if (written) taken += 3000;
    }
    EXPECT_EQ(written.sys_errno(), EIO) << written.message();
    EXPECT_GT(taken, 30000u);
    EXPECT_TRUE(same(node.read(1, 0, 3000), bytes_of(3000, 0))) << "what was taken stays readable";
    EXPECT_EQ(node.commit().sys_errno(), EIO);
    EXPECT_EQ(node.close().sys_errno(), EIO);
    node.end();
    EXPECT_EQ(node.scratch().left().size(), 2u) << "the logs of both stay";
    std::uint64_t payload = 0;
    for (const log::ScannedLog& log : node.scratch().logs())
        for (const log::ScannedRecord& record : log.records) payload += record.header.payload_bytes;
    EXPECT_EQ(payload, taken);
}

TEST(Participants, do_not_wait_for_room_beyond_their_patience_with_a_target_that_hangs) {
    test::left_on_purpose = true;
    auto plan = std::make_shared<io::FaultPlan>();
    LoadedOptions options = tiny_options();
    options.options.patience = 1;
    {
        Participants node(2, options, plan);
        node.listen();
        plan->hang(io::Operation::kWrite);
        Status written;
        std::uint64_t taken = 0;
        for (std::uint64_t i = 0; i < 100 && written; ++i) {
            written = node.write(1, i * 3000, bytes_of(3000, i));
            if (written) taken += 3000;
        }
        EXPECT_EQ(written.sys_errno(), ETIMEDOUT) << written.message();
        EXPECT_GT(taken, 30000u);
        EXPECT_EQ(node.commit().sys_errno(), ETIMEDOUT);
        EXPECT_EQ(node.close().sys_errno(), ETIMEDOUT);
        EXPECT_TRUE(same(node.read(0, 0, 3000), bytes_of(3000, 0))) << "what was taken stays readable";
        node.end();
        EXPECT_EQ(node.scratch().left().size(), 2u) << "the logs of both stay";
    }
    plan->let_go();
}

// Metadata goes to the target then, and only its records to the log, which they fill.
TEST(Participants, find_room_for_the_records_of_what_they_write_to_the_target_beside_other_nodes) {
    Participants node(2, tiny_options(), nullptr, {}, true);
    node.listen();
    test::PlainBytes expected;
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const auto bytes = bytes_of(8, i);
        ASSERT_TRUE(node.write(1, i * 8, bytes, ByteClass::kMetadata));
        expected.write(i * 8, bytes);
    }
    EXPECT_EQ(node.file(1).counters().through, 16000u);
    EXPECT_GT(node.group(1).log().released(), 1u);
    EXPECT_TRUE(same(node.read(1, 0, expected.content.size()), expected.content));
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

// No listener runs, as if the read had followed the record just before the listener looked.
TEST(Participants, drain_for_other_nodes_what_a_read_of_the_drainer_has_followed) {
    Participants node(2, tiny_options(), nullptr, {}, true);
    const auto bytes = bytes_of(3000, 1);
    ASSERT_TRUE(node.write(1, 0, bytes));
    EXPECT_TRUE(same(node.read(0, 0, bytes.size()), bytes));
    EXPECT_TRUE(node.group(1).log().await_drained());
    EXPECT_TRUE(same(node.target().contents(), bytes));
    ASSERT_TRUE(node.close());
}

TEST(Participants, are_told_when_the_drainer_is_gone) {
    Participants node(2, tiny_options());
    node.listen_no_more();   // nobody drains
    area::ProcessIdentity gone = area::identify_this_process().value();
    ++gone.start_ticks;   // an earlier process of the same number
    auto board = group::Board::create(io::make_memory_file("board"), 2, 8);
    group::Group group({std::move(board).value(), 1, 0, {gone, gone}, 1});
    EXPECT_EQ(group.log().wait_for_room(0).code(), Code::kUnavailable);
    EXPECT_EQ(group.ending().wait_until_finished().code(), Code::kUnavailable);
    ASSERT_TRUE(node.close());
}

// In another PID namespace nobody sees its number; after exec its number is still there.
TEST(Participants, are_told_when_the_drainer_is_gone_by_its_lock_and_not_by_its_number) {
    test::Scratch scratch;
    const auto engine = stage::Engine::create(test::tiny_options(), scratch.opener());
    const auto directory = std::move(io::open_posix_directory(scratch.area())).value()->create_directory("1-2-0");
    ASSERT_TRUE(directory);
    const area::ProcessIdentity seen = area::identify_this_process().value();
    area::ProcessIdentity unseen = seen;
    ++unseen.start_ticks;
    const auto group_with = [&](const area::ProcessIdentity& drainer) {
        auto board = group::Board::create(io::make_memory_file("board"), 2, 8);
        return std::make_unique<group::Group>(group::Group::Setup{
            std::move(board).value(),
            1,
            0,
            {drainer, seen},
            1,
            false,
            false,
            0,
            1,
            false,
            {directory.value()->name(), directory.value()->name()}});
    };
    {
        const auto lock = directory.value()->hold(std::string(area::kAliveFile));
        ASSERT_TRUE(lock);
        EXPECT_TRUE(group_with(unseen)->log().wait_for_room(1)) << "it lives: room may come";
    }
    EXPECT_EQ(group_with(seen)->log().wait_for_room(0).code(), Code::kUnavailable);
    EXPECT_EQ(group_with(seen)->ending().wait_until_finished().code(), Code::kUnavailable);
}

// ---- commit and what a crash leaves --------------------------------------------------------------------

TEST(Participants, hold_metadata_back_until_the_drainer_commits) {
    Participants node(3, test::small_options());
    ASSERT_TRUE(node.write(1, 0, bytes_of(1000, 1), ByteClass::kMetadata));
    node.file(0).membership().poll(false);
    EXPECT_EQ(node.file(0).counters().held, 1000u);
    EXPECT_TRUE(node.target().contents().empty());
    ASSERT_TRUE(node.commit());
    ASSERT_TRUE(node.drain());
    EXPECT_EQ(node.target().contents(), bytes_of(1000, 1));
    EXPECT_EQ(node.file(0).counters().guarantee_given_up, 0u);
    ASSERT_TRUE(node.close());
}

TEST(Participants, leave_logs_that_give_the_file_at_its_last_commit) {
    Participants node(3, test::small_options());
    test::PlainBytes expected;
    for (std::uint64_t i = 0; i < 30; ++i) {
        const auto bytes = bytes_of(1000, i);
        ASSERT_TRUE(node.write(i % 3, 700 * i, bytes, i % 4 == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
        expected.write(700 * i, bytes);
    }
    ASSERT_TRUE(node.truncate(15000));
    expected.content.resize(15000);
    ASSERT_TRUE(node.commit());
    ASSERT_TRUE(node.write(2, 0, bytes_of(5000, 99)));
    EXPECT_TRUE(same(node.recovered(), expected.content));
    ASSERT_TRUE(node.close());
}

// The log of one still has the older bytes, that of the other no longer has the newer ones.
TEST(Participants, leave_logs_that_do_not_bring_back_bytes_which_newer_ones_have_replaced) {
    Participants node(3, tiny_options());
    node.listen();
    const auto older = bytes_of(1000, 1), newer = bytes_of(1000, 2);
    ASSERT_TRUE(node.write(1, 0, older));
    ASSERT_TRUE(node.write(1, 5000, bytes_of(100, 3), ByteClass::kMetadata));
    ASSERT_TRUE(node.write(2, 0, newer));
    std::uint64_t offset = 10000;
    while (node.group(2).log().released() < 1) {
        ASSERT_TRUE(node.write(2, offset, bytes_of(4000, offset)));
        offset += 4000;
    }
    ASSERT_TRUE(node.write(2, offset, bytes_of(4000, 4)));
    ASSERT_TRUE(node.commit());
    auto recovered = node.recovered();
    recovered.resize(1000);
    EXPECT_TRUE(same(recovered, newer));
    ASSERT_TRUE(node.close());
}

// ---- write stealing ------------------------------------------------------------------------------------

// Figure 7 of the Compactor paper: a read that overlaps two writes of different clients takes from them what
// they have, and only the rest from the file.
TEST(Participants, figure_7_write_stealing_serves_a_read_from_two_writes_and_the_file) {
    Participants node(3, test::small_options(), nullptr, bytes_of(4096, 1));
    ASSERT_TRUE(node.write(1, 512, bytes_of(1024, 2)));
    ASSERT_TRUE(node.write(2, 2048, bytes_of(1024, 3)));
    test::PlainBytes expected{bytes_of(4096, 1)};
    expected.write(512, bytes_of(1024, 2));
    expected.write(2048, bytes_of(1024, 3));
    for (const std::size_t reader : {0, 1, 2}) {
        EXPECT_TRUE(same(node.read(reader, 1000, 1500), expected.read(1000, 1500)));
        EXPECT_EQ(node.file(reader).counters().stolen, (512u + 1024 - 1000) + (1000u + 1500 - 2048));
    }
    EXPECT_EQ(node.target().contents(), bytes_of(4096, 1)) << "nothing had been drained";
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

}   // namespace
}   // namespace forebay
