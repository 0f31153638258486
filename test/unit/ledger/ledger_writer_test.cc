#include "ledger/ledger_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <set>

#include "area/process.h"
#include "io/fault_file.h"
#include "io/memory_file.h"

namespace forebay::ledger {
namespace {

class LedgerWriterTest : public ::testing::Test {
  protected:
    LedgerWriterTest() : directory_(io::make_memory_directory("/area")) {}

    Status publish(std::shared_ptr<io::FaultPlan> plan = nullptr) {
        auto file = std::move(directory_->open_file("ledger", io::OpenMode::kCreateNew)).value();
        if (plan) file = io::make_fault_file(std::move(file), std::move(plan));
        return writer_.publish(std::move(file), process_, 1 << 20, 1 << 16);
    }
    // What another process sees: the bytes of the file.
    const LedgerHeader& published_header() {
        map();
        return *std::launder(reinterpret_cast<const LedgerHeader*>(view_->bytes().data()));
    }
    const LedgerSlot& published_slot(std::size_t index) {
        map();
        return std::launder(reinterpret_cast<const LedgerSlot*>(view_->bytes().data() + sizeof(LedgerHeader)))[index];
    }

    const area::ProcessIdentity process_{42, 4711, {std::byte{0x1f}}};
    std::unique_ptr<io::Directory> directory_;
    LedgerWriter writer_;

  private:
    void map() {
        if (view_) return;
        auto file = std::move(directory_->open_file("ledger", io::OpenMode::kReadWrite)).value();
        view_ = std::move(file->map(0, file->size().value())).value();
    }
    std::unique_ptr<io::Mapping> view_;
};

TEST_F(LedgerWriterTest, before_it_is_published_it_counts_in_memory_and_has_no_slots) {
    writer_.header().files_opened = 3;
    EXPECT_EQ(writer_.take_slot("/a", 1, 2), nullptr);
    EXPECT_EQ(writer_.header().files_opened, 3u);
    EXPECT_EQ(writer_.header().files_without_slot, 1u);
}

TEST_F(LedgerWriterTest, how_a_file_is_used_is_found_by_its_identity_or_by_its_path) {
    const io::Identity one{1, 2}, other{1, 3};
    EXPECT_EQ(file_use(*directory_, one).value(), FileUse::kNone) << "there is no ledger yet";
    ASSERT_TRUE(publish());
    LedgerSlot* const slot = writer_.take_slot("/a/b.h5", one.device, one.inode);
    ASSERT_NE(slot, nullptr);
    set_use(*slot, FileUse::kOpen);
    EXPECT_EQ(file_use(*directory_, one).value(), FileUse::kOpen);
    EXPECT_EQ(file_use(*directory_, one, "/other").value(), FileUse::kOpen);
    EXPECT_EQ(file_use(*directory_, other).value(), FileUse::kNone);
    EXPECT_EQ(file_use(*directory_, other, "/a/b.h5").value(), FileUse::kOpen);
    for (const char* path : {"/a/b.h", "/a/b.h6", "/a/b.h55"})
        EXPECT_EQ(file_use(*directory_, other, path).value(), FileUse::kNone) << path;
    set_use(*slot, FileUse::kNone);
    EXPECT_EQ(file_use(*directory_, other, "/a/b.h5").value(), FileUse::kNone);
}

// Each open of a file asks that of every living process.
TEST_F(LedgerWriterTest, the_use_of_a_file_takes_few_reads_however_many_files_are_open) {
    ASSERT_TRUE(publish());
    for (std::size_t i = 0; i <= kLedgerSlots; ++i)
        EXPECT_EQ(writer_.take_slot("/a", 1, 1000 + i) != nullptr, i < kLedgerSlots);
    const auto reads = std::make_shared<io::FaultPlan>();
    const auto counting = io::make_fault_directory(std::move(directory_), reads);
    constexpr std::uint64_t kReads = 1 + 7;   // the header; then 4, 4, 8, 16, 32, 64 and 128 slots
    reads->fail(io::Operation::kRead, kReads + 1, 1, EIO);
    EXPECT_EQ(file_use(*counting, {1, 7}).status().code(), Code::kUnavailable) << "it may have no slot";
    EXPECT_EQ(reads->fired(), 0u);
    EXPECT_EQ(file_use(*counting, {1, 1000 + kLedgerSlots - 1}).status().sys_errno(), EIO) << "the reads are counted";
}

TEST_F(LedgerWriterTest, publishing_tells_who_and_how_much_and_keeps_what_was_counted) {
    writer_.header().files_opened = 3;
    writer_.header().aside[static_cast<std::size_t>(AsideReason::kReadOnly)] = 2;
    ASSERT_TRUE(publish());
    const LedgerHeader& header = published_header();
    EXPECT_EQ(header.magic, kLedgerMagic);
    EXPECT_EQ(header.version, kLedgerVersion);
    EXPECT_EQ(header.pid, 42u);
    EXPECT_EQ(header.process_start_ticks, 4711u);
    EXPECT_EQ(std::string(header.boot_id), area::to_text(process_.boot_id));
    EXPECT_EQ(header.slots, kLedgerSlots);
    EXPECT_EQ(header.size, 1u << 20);
    EXPECT_EQ(header.segment, 1u << 16);
    EXPECT_EQ(header.files_opened, 3u);
    EXPECT_EQ(header.aside[static_cast<std::size_t>(AsideReason::kReadOnly)], 2u);
    writer_.header().files_staged = 7;
    EXPECT_EQ(header.files_staged, 7u);
}

TEST_F(LedgerWriterTest, when_publishing_fails_the_counters_stay_in_memory) {
    for (const io::Operation operation : {io::Operation::kResize, io::Operation::kMap}) {
        auto plan = std::make_shared<io::FaultPlan>();
        plan->fail(operation, 1, 1, ENOSPC);
        EXPECT_EQ(publish(plan).code(), Code::kNoSpace);
        writer_.header().files_opened.fetch_add(1);
        EXPECT_EQ(writer_.take_slot("/a", 1, 2), nullptr);
        ASSERT_TRUE(directory_->remove_file("ledger"));
    }
    EXPECT_EQ(writer_.header().files_opened, 2u);
    ASSERT_TRUE(publish());
    EXPECT_EQ(published_header().files_opened, 2u);
}

TEST_F(LedgerWriterTest, a_taken_slot_names_the_file_and_begins_at_zero) {
    ASSERT_TRUE(publish());
    LedgerSlot* const slot = writer_.take_slot("/scratch/run.h5", 7, 8);
    ASSERT_NE(slot, nullptr);
    slot->staged = 4096;
    EXPECT_EQ(published_slot(0).in_use, 1u);
    EXPECT_EQ(published_slot(0).device, 7u);
    EXPECT_EQ(published_slot(0).inode, 8u);
    EXPECT_EQ(published_slot(0).staged, 4096u);
    EXPECT_EQ(snapshot(published_slot(0)).path, "/scratch/run.h5");
    EXPECT_GT(published_slot(0).opened_ns, 0u);
}

TEST_F(LedgerWriterTest, a_slot_given_back_is_taken_again_without_its_old_counters) {
    ASSERT_TRUE(publish());
    LedgerSlot* const first = writer_.take_slot("/a/long/path", 1, 1);
    first->requests = first->staged = first->drained = first->superseded = first->through = 9;
    first->pending = first->held = first->oldest_ns = first->commits = first->target_writes = 9;
    first->drain_ns = first->stage_ns = first->stall_ns = first->close_ns = first->guarantee_given_up = 9;
    first->merged = first->stolen = first->syncs = first->error = first->aside = 9;
    writer_.give_back(first);
    EXPECT_EQ(published_slot(0).in_use, 0u);
    LedgerSlot* const second = writer_.take_slot("/b", 2, 2);
    ASSERT_EQ(second, first);
    FileCounters counters = snapshot(*second);
    EXPECT_EQ(counters.path, "/b");
    EXPECT_EQ(counters.requests + counters.staged + counters.drained + counters.superseded + counters.through +
                  counters.pending + counters.held + counters.oldest_ns + counters.commits + counters.target_writes +
                  counters.drain_ns + counters.stage_ns + counters.stall_ns + counters.close_ns +
                  counters.guarantee_given_up + counters.merged + counters.stolen + counters.syncs + counters.error +
                  counters.aside,
              0u);
}

TEST_F(LedgerWriterTest, when_all_slots_are_taken_the_file_is_counted_and_goes_without) {
    ASSERT_TRUE(publish());
    std::set<LedgerSlot*> slots;
    for (std::size_t i = 0; i < kLedgerSlots; ++i) slots.insert(writer_.take_slot("/a", 1, i));
    EXPECT_EQ(slots.size(), kLedgerSlots);
    EXPECT_FALSE(slots.contains(nullptr));
    EXPECT_EQ(writer_.take_slot("/a", 1, 1000), nullptr);
    EXPECT_EQ(published_header().files_without_slot, 1u);
    LedgerSlot* const any = *slots.begin();
    writer_.give_back(any);
    EXPECT_EQ(writer_.take_slot("/a", 1, 1001), any);
}

TEST_F(LedgerWriterTest, a_path_too_long_is_cut) {
    ASSERT_TRUE(publish());
    const std::string path(kLedgerPathMax + 10, 'p');
    EXPECT_EQ(snapshot(*writer_.take_slot(path, 1, 1)).path, path.substr(0, kLedgerPathMax));
}

}   // namespace
}   // namespace forebay::ledger
