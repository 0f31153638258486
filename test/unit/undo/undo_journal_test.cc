// The undo journal: what is copied and when, its bytes, and a reader that believes nothing.
#include "undo/undo_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "base/bytes.h"
#include "io/fault_file.h"
#include "io/memory_file.h"
#include "support/engine_fixture.h"

namespace forebay::undo {
namespace {

using test::bytes_of;
using test::same;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UndoJournalTest : public testing::Test {
  protected:
    void begin(std::uint64_t size, std::uint64_t bytes_max = 1 << 20, std::shared_ptr<io::FaultPlan> faults = nullptr) {
        auto file = std::move(home_->open_file("undo-1", io::OpenMode::kCreateNew)).value();
        if (faults != nullptr) file = io::make_fault_file(std::move(file), faults);
        auto made = UndoJournal::create(std::move(file), {77, 1, 2, {100, 5, {}}, 7, 1, "/scratch/run.h5"}, size,
                                        bytes_max);
        ASSERT_TRUE(made) << made.status().message();
        journal_ = std::move(made).value();
        std::shared_ptr<io::File> target = std::move(home_->open_file("run.h5", io::OpenMode::kCreateNew)).value();
        ASSERT_TRUE(target->write_at(0, bytes_of(size, 1)));
        target_ = make_guarded_file(target, journal_, [this](std::uint64_t bytes) { given_up_ += bytes; });
    }
    std::unique_ptr<io::File> file() { return std::move(home_->open_file("undo-1", io::OpenMode::kReadWrite)).value(); }
    UndoView view() {
        auto read = read_undo(*file());
        EXPECT_TRUE(read) << read.status().message();
        return std::move(read).value();
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges() {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
        for (const auto& record : view().records)
            found.emplace_back(record.record.range.begin, record.record.range.end);
        return found;
    }
    std::vector<std::byte> kept(std::size_t i) {
        const auto record = view().records.at(i);
        std::vector<std::byte> bytes(record.record.range.size());
        EXPECT_EQ(file()->read_at(record.payload_at, bytes).value(), bytes.size());
        return bytes;
    }
    static std::vector<std::byte> part(const std::vector<std::byte>& whole, std::size_t begin, std::size_t end) {
        return {whole.begin() + static_cast<std::ptrdiff_t>(begin), whole.begin() + static_cast<std::ptrdiff_t>(end)};
    }

    std::unique_ptr<io::Directory> home_ = io::make_memory_directory("/scratch");
    std::shared_ptr<UndoJournal> journal_;
    std::shared_ptr<io::File> target_;
    std::uint64_t given_up_ = 0;
};

TEST_F(UndoJournalTest, copies_what_is_overwritten_for_the_first_time_and_nothing_beyond_the_end) {
    begin(1000);
    ASSERT_TRUE(target_->write_at(100, bytes_of(100, 2)));
    ASSERT_TRUE(target_->write_at(150, bytes_of(100, 3)));
    ASSERT_TRUE(target_->write_at(100, bytes_of(50, 4)));
    ASSERT_TRUE(target_->write_at(990, bytes_of(500, 5)));
    ASSERT_TRUE(target_->write_at(5000, bytes_of(10, 6)));
    EXPECT_THAT(ranges(), ElementsAre(std::pair(100, 200), std::pair(200, 250), std::pair(990, 1000)));
    const auto before = bytes_of(1000, 1);
    EXPECT_TRUE(same(kept(0), part(before, 100, 200)));
    EXPECT_TRUE(same(kept(1), part(before, 200, 250)));
    EXPECT_EQ(journal_->preserved_bytes(), 160u);
}

TEST_F(UndoJournalTest, copies_what_is_cut_off) {
    begin(1000);
    ASSERT_TRUE(target_->resize(2000));
    EXPECT_THAT(ranges(), IsEmpty());
    ASSERT_TRUE(target_->resize(300));
    EXPECT_THAT(ranges(), ElementsAre(std::pair(300, 1000)));
    EXPECT_TRUE(same(kept(0), part(bytes_of(1000, 1), 300, 1000)));
}

TEST_F(UndoJournalTest, keeps_what_is_overwritten_after_prepare_for_the_next_commit_also_if_this_one_is_made) {
    begin(1000);
    ASSERT_TRUE(target_->write_at(0, bytes_of(10, 2)));
    ASSERT_TRUE(journal_->prepare(1000));
    EXPECT_EQ(view().state.prepared, 1u);
    EXPECT_EQ(view().state.decided, 0u);
    ASSERT_TRUE(target_->write_at(0, bytes_of(10, 3)));
    ASSERT_TRUE(journal_->decide());
    EXPECT_EQ(view().state.decided, 1u);
    EXPECT_GT(view().state.decided_ns, 0u);
    const auto records = view().records;
    ASSERT_THAT(records, SizeIs(2));
    EXPECT_EQ(records[0].record.epoch, 1u);
    EXPECT_EQ(records[1].record.epoch, 2u);
    EXPECT_TRUE(same(kept(1), bytes_of(10, 2)));
}

TEST_F(UndoJournalTest, begins_anew_after_a_commit_and_knows_the_new_size) {
    begin(100);
    ASSERT_TRUE(target_->write_at(0, bytes_of(5000, 2)));
    ASSERT_TRUE(journal_->prepare(5000));
    ASSERT_TRUE(journal_->decide());
    EXPECT_THAT(ranges(), IsEmpty());
    EXPECT_EQ(file()->size().value(), kUndoFrontBytes);
    EXPECT_EQ(view().state.decided_size, 5000u);
    ASSERT_TRUE(target_->write_at(4000, bytes_of(100, 3)));
    EXPECT_THAT(ranges(), ElementsAre(std::pair(4000, 4100)));
}

TEST_F(UndoJournalTest, gives_a_commit_that_was_not_made_no_number_twice) {
    begin(100);
    ASSERT_TRUE(journal_->prepare(100));
    EXPECT_EQ(journal_->number(), 2u);
    ASSERT_TRUE(journal_->prepare(100));
    ASSERT_TRUE(journal_->decide());
    EXPECT_EQ(view().state.decided, 2u);
}

TEST_F(UndoJournalTest, waits_in_prepare_for_whoever_is_overwriting) {
    begin(1000);
    const auto beneath = std::move(home_->open_file("run.h5", io::OpenMode::kReadWrite)).value();
    (void)journal_->begin_overwriting({0, 10}, *beneath);
    auto prepared = std::async(std::launch::async, [this] { return journal_->prepare(1000); });
    EXPECT_EQ(prepared.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    journal_->end_overwriting();
    EXPECT_TRUE(prepared.get());
}

TEST_F(UndoJournalTest, keeps_what_several_threads_overwrite_at_once_while_commits_go_on) {
    constexpr std::uint64_t kSize = 64 << 10;
    begin(kSize, 64 << 20);
    std::atomic<std::uint64_t> overwritten{0};   // since the threads were started last
    const auto overwrite_for_a_while = [&](std::uint64_t seed, const std::function<void()>& meanwhile) {
        std::atomic<bool> enough{false};
        overwritten = 0;
        std::vector<std::jthread> threads;
        for (std::uint64_t i = 0; i < 4; ++i)
            threads.emplace_back([&, i] {
                std::mt19937_64 random(seed + i);
                // Places overlap; nobody knows whose bytes remain.
                while (!enough) {
                    EXPECT_TRUE(target_->write_at(random() % kSize, bytes_of(1 + random() % 500, random())));
                    ++overwritten;
                    overwritten.notify_one();
                }
            });
        meanwhile();
        enough = true;
    };
    for (std::uint64_t round = 0; round < 5; ++round) {
        overwrite_for_a_while(100 * round, [&] {
            for (int i = 0; i < 20; ++i) {
                ASSERT_TRUE(journal_->prepare(kSize));
                if (i % 3 == 0) continue;   // it came to nothing
                ASSERT_TRUE(journal_->decide());
            }
        });
        ASSERT_TRUE(journal_->prepare(kSize));
        ASSERT_TRUE(journal_->decide());
        std::vector<std::byte> committed(kSize), now(kSize);
        ASSERT_TRUE(target_->read_at(0, committed));
        overwrite_for_a_while(1000 + round, [&] {
            ASSERT_TRUE(journal_->prepare(kSize));   // and comes to nothing
            const std::uint64_t until = overwritten + 20;
            for (std::uint64_t seen = overwritten; seen < until; seen = overwritten) overwritten.wait(seen);
        });
        ASSERT_TRUE(target_->read_at(0, now));
        EXPECT_FALSE(same(now, committed));
        const auto left = view();
        std::vector<char> known(kSize);
        for (std::size_t i = 0; i < left.records.size(); ++i) {
            if (left.records[i].record.epoch <= left.state.decided) continue;
            const auto bytes = kept(i);
            for (std::uint64_t at = left.records[i].record.range.begin; at < left.records[i].record.range.end; ++at)
                if (std::exchange(known[at], 1) == 0) now[at] = bytes[at - left.records[i].record.range.begin];
        }
        ASSERT_TRUE(same(now, committed)) << "round " << round;
    }
    EXPECT_EQ(given_up_, 0u);
}

TEST_F(UndoJournalTest, tells_how_much_it_could_not_copy_until_the_next_commit) {
    begin(1000, 200);
    ASSERT_TRUE(target_->write_at(0, bytes_of(64, 2)));
    ASSERT_TRUE(target_->write_at(500, bytes_of(100, 2)));
    EXPECT_EQ(given_up_, 100u);
    EXPECT_EQ(view().state.given_up, 100u);
    EXPECT_THAT(ranges(), ElementsAre(std::pair(0, 64)));
    ASSERT_TRUE(journal_->prepare(1000));
    ASSERT_TRUE(journal_->decide());
    EXPECT_EQ(view().state.given_up, 0u);
}

TEST_F(UndoJournalTest, that_fails_at_any_call_lets_the_target_be_written_and_says_so) {
    for (std::uint64_t nth = 2; nth < 12; ++nth) {
        SCOPED_TRACE(testing::Message() << "call " << nth);
        home_ = io::make_memory_directory("/scratch");
        given_up_ = 0;
        auto faults = std::make_shared<io::FaultPlan>();
        faults->fail_any(nth, 1, ENOSPC, 20);
        begin(1000, 1 << 20, faults);
        std::vector<std::byte> expected = bytes_of(1000, 1);
        for (std::uint64_t i = 0; i < 4; ++i) {
            const auto bytes = bytes_of(50, 10 + i);
            ASSERT_TRUE(target_->write_at(i * 200, bytes));
            std::copy(bytes.begin(), bytes.end(), expected.begin() + static_cast<std::ptrdiff_t>(i * 200));
        }
        std::vector<std::byte> content(1000);
        ASSERT_TRUE(target_->read_at(0, content));
        EXPECT_TRUE(same(content, expected));
        const auto before = bytes_of(1000, 1);
        std::uint64_t there = 0;
        for (std::size_t i = 0; i < view().records.size(); ++i, there += 50) {
            const auto range = view().records[i].record.range;
            EXPECT_TRUE(same(kept(i), part(before, range.begin, range.end)));
        }
        EXPECT_EQ(there + given_up_, 200u) << "copied, or told of";
    }
}

TEST_F(UndoJournalTest, leaves_out_a_record_that_is_cut_off_and_refuses_a_damaged_one) {
    begin(1000);
    ASSERT_TRUE(target_->write_at(0, bytes_of(100, 2)));
    ASSERT_TRUE(target_->write_at(200, bytes_of(100, 2)));
    const std::uint64_t second = kUndoFrontBytes + undo_record_bytes(100);
    for (std::uint64_t size = file()->size().value(); --size >= second;) {
        ASSERT_TRUE(file()->resize(size));
        ASSERT_THAT(view().records, SizeIs(1)) << size;
    }
    const std::vector<std::byte> other{std::byte{0xA5}};
    for (const std::uint64_t at : {kUndoFrontBytes + 30, kUndoFrontBytes + kUndoRecordBytes + 5}) {
        ASSERT_TRUE(file()->write_at(at, other));
        const auto read = read_undo(*file());
        EXPECT_EQ(read.status().code(), Code::kCorrupt);
        EXPECT_THAT(read.status().message(), HasSubstr("undo-1"));
    }
}

TEST_F(UndoJournalTest, believes_the_newest_state_that_is_right) {
    begin(1000);
    ASSERT_TRUE(journal_->prepare(900));
    const std::uint64_t serial = view().state.serial;
    ASSERT_TRUE(file()->write_at(undo_state_at(serial) + 8, bytes_of(1, 9)));
    EXPECT_EQ(view().state.prepared, 0u) << "a torn one: the older counts";
    ASSERT_TRUE(file()->write_at(undo_state_at(serial + 1) + 8, bytes_of(1, 9)));
    EXPECT_EQ(read_undo(*file()).status().code(), Code::kCorrupt);
}

// Behind right checksums too: what a record says is bounded by the file.
TEST_F(UndoJournalTest, is_read_without_harm_whatever_its_bytes_are) {
    begin(1000);
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(target_->write_at(i * 150, bytes_of(100, i)));
    std::vector<std::byte> good(file()->size().value());
    ASSERT_TRUE(file()->read_at(0, good));
    std::mt19937_64 random(1);
    std::size_t refused = 0;
    for (int i = 0; i < 3000; ++i) {
        auto bad = good;
        if (random() % 4 == 0) {
            UndoRecord record{random(), random(), random(), {}, random(), random()};
            record.range.begin = random() % 3 == 0 ? UINT64_MAX - random() % 200 : random() % 2000;
            record.range.end = record.range.begin + (random() % 3 == 0 ? random() : random() % 300);
            encode(record,
                   std::span(bad).subspan(kUndoFrontBytes + undo_record_bytes(100) * (random() % 5), kUndoRecordBytes));
        } else {
            for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips)
                bad[random() % 2 == 0 ? random() % 600 : random() % bad.size()] = static_cast<std::byte>(random());
        }
        bad.resize(bad.size() - random() % 2 * (random() % bad.size()));
        auto home = io::make_memory_directory("/scratch");
        const auto made = std::move(home->open_file("undo-1", io::OpenMode::kCreateNew)).value();
        ASSERT_TRUE(made->write_at(0, bad));
        const auto read = read_undo(*made);
        refused += read ? 0 : 1;
        if (!read) continue;
        for (const auto& record : read.value().records) {
            ASSERT_LE(record.payload_at + record.record.range.size(), bad.size());
            ASSERT_LT(record.record.range.begin, record.record.range.end);
        }
    }
    EXPECT_GT(refused, 300u);
    EXPECT_LT(refused, 3000u);
}

TEST_F(UndoJournalTest, has_the_bytes_that_its_page_says) {
    begin(1000);
    journal_->step();
    ASSERT_TRUE(target_->write_at(16, bytes_of(8, 2)));
    std::vector<std::byte> all(file()->size().value());
    ASSERT_TRUE(file()->read_at(0, all));
    const auto u64 = [&](std::size_t at) { return load_le<std::uint64_t>(all.data() + at); };
    EXPECT_EQ(std::memcmp(all.data(), "FBUNDO01", 8), 0);
    EXPECT_EQ(load_le<std::uint32_t>(all.data() + 8), 2u);
    EXPECT_THAT((std::vector{u64(16), u64(24), u64(32), u64(40), u64(48), u64(72), u64(80), u64(96)}),
                ElementsAre(77, 1, 2, 100, 5, 7, 1, 15));
    EXPECT_EQ(std::memcmp(all.data() + 576, "/scratch/run.h5", 15), 0);
    EXPECT_THAT((std::vector{u64(384), u64(392), u64(400), u64(408), u64(416), u64(424), u64(432), u64(440)}),
                ElementsAre(1, 0, 1000, 0, 0, 1000, 0, 0));
    EXPECT_EQ(std::memcmp(all.data() + 8192, "FUND", 4), 0);
    EXPECT_THAT((std::vector{u64(8200), u64(8208), u64(8216), u64(8224)}), ElementsAre(1, 1, 16, 8));
    EXPECT_TRUE(same(part(all, 8256, 8264), part(bytes_of(1000, 1), 16, 24)));
    EXPECT_EQ(all.size(), 8192u + 128u);
}

}   // namespace
}   // namespace forebay::undo
