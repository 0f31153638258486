// The writing of a file that a staging server stages, with a server that is played here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/attempt.h"
#include "io/forwarded_target.h"
#include "support/engine_fixture.h"

namespace forebay::stage {
namespace {

using test::Area;
using test::bytes_of;
using test::same;
using test::small_options;
using test::Target;

// Keeps the bytes in memory of its own. They reach the file at the close, or at once after `step_aside`.
struct PlayedServer {
    std::vector<std::string> calls;   // but reads and writes
    std::vector<std::byte> raw, metadata;
    Status close_failure, withheld;
};

class FileAtServer final : public io::ForwardedTarget {
  public:
    FileAtServer(std::unique_ptr<io::File> file, std::shared_ptr<PlayedServer> server)
        : file_(std::move(file)), held_(io::make_memory_file("held")), server_(std::move(server)) {
        std::vector<std::byte> bytes(file_->size().value());
        (void)file_->read_at(0, bytes);
        (void)held_->write_at(0, bytes);
    }

    const std::string& name() const noexcept override { return file_->name(); }
    Result<io::Identity> identity() override { return file_->identity(); }
    Result<std::uint64_t> size() override { return held_->size(); }
    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
        return held_->read_at(offset, into);
    }
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        server_->raw.insert(server_->raw.end(), bytes.begin(), bytes.end());
        return take(offset, bytes);
    }
    Status write_metadata_at(std::uint64_t offset, io::Bytes bytes) override {
        server_->metadata.insert(server_->metadata.end(), bytes.begin(), bytes.end());
        return take(offset, bytes);
    }
    Status write_gather_at(std::uint64_t, std::span<const io::Bytes>) override { return called("write_gather"); }
    Status resize(std::uint64_t size) override {
        (void)called("resize " + std::to_string(size));
        return held_->resize(size);
    }
    Status allocate(std::uint64_t, std::uint64_t) override { return called("allocate"); }
    Status punch(std::uint64_t, std::uint64_t) override { return called("punch"); }
    Result<std::unique_ptr<io::Mapping>> map(std::uint64_t, std::size_t) override { return called("map"); }
    Status sync() override { return called("sync"); }
    Status end_call() override { return called("end_call"); }
    Status commit() override { return called("commit"); }
    Status drain() override { return called("drain"); }
    Status step_aside() override {
        at_once_ = true;
        return called("step_aside");
    }
    void withhold(const Status& why) noexcept override { server_->withheld = copy_of(why, "a write failed"); }
    Status close() override {
        (void)called("close");
        if (!server_->withheld.is_ok()) return server_->withheld;
        if (!server_->close_failure.is_ok()) return server_->close_failure;
        std::vector<std::byte> bytes(held_->size().value());
        (void)held_->read_at(0, bytes);
        (void)file_->resize(bytes.size());
        return file_->write_at(0, bytes);
    }
    void note_size(std::uint64_t) noexcept override {}

  private:
    Status called(std::string what) {
        server_->calls.push_back(std::move(what));
        return Status::ok();
    }
    Status take(std::uint64_t offset, io::Bytes bytes) {
        if (at_once_) FOREBAY_TRY(file_->write_at(offset, bytes));
        return held_->write_at(offset, bytes);
    }

    const std::unique_ptr<io::File> file_, held_;
    const std::shared_ptr<PlayedServer> server_;
    bool at_once_ = false;
};

class ForwardedWritingTest : public testing::Test {
  protected:
    explicit ForwardedWritingTest(const LoadedOptions& options = small_options())
        : engine_(Engine::create(options, area_.opener())) {}

    Result<std::shared_ptr<ForwardedWriting>> open() {
        return engine_->attach_forwarded({.file = nullptr,
                                          .writable = true,
                                          .aside = ledger::AsideReason::kForwarded,
                                          .forwarded = std::make_unique<FileAtServer>(target_.open(), server_)});
    }
    std::shared_ptr<ForwardedWriting> must_open() {
        auto opened = open();
        EXPECT_TRUE(opened) << opened.status().message();
        return opened ? std::move(opened).value() : nullptr;
    }
    static Status write(ForwardedWriting& file, std::uint64_t offset, io::Bytes bytes,
                        ByteClass byte_class = ByteClass::kRaw) {
        const ForwardedWriting::Part part{offset, bytes};
        return file.write({&part, 1}, byte_class);
    }

    Area area_;
    Target target_;
    const std::shared_ptr<PlayedServer> server_ = std::make_shared<PlayedServer>();
    std::unique_ptr<Engine> engine_;
};

using Calls = std::vector<std::string>;

TEST_F(ForwardedWritingTest, each_call_of_the_program_reaches_the_server_and_nothing_is_staged_here) {
    const auto file = must_open();
    const auto raw = bytes_of(1000, 1), metadata = bytes_of(500, 2);
    const std::vector<ForwardedWriting::Part> parts{{0, io::Bytes(raw).first(600)}, {600, io::Bytes(raw).subspan(600)}};
    ASSERT_TRUE(file->write(parts, ByteClass::kRaw));
    ASSERT_TRUE(write(*file, 1000, metadata, ByteClass::kMetadata));
    ASSERT_TRUE(file->commit());
    ASSERT_TRUE(file->truncate(1200));
    ASSERT_TRUE(file->truncate(1200));   // another client may have changed the size in between
    ASSERT_TRUE(file->drain());
    EXPECT_TRUE(same(server_->raw, raw));
    EXPECT_TRUE(same(server_->metadata, metadata));
    EXPECT_EQ(file->reader()->counters().through, 1500u);
    EXPECT_EQ(file->reader()->counters().staged, 0u);
    EXPECT_NE(file->reader()->counters().aside & 1u << static_cast<unsigned>(ledger::AsideReason::kForwarded), 0u);
    EXPECT_TRUE(target_.contents().empty());
    EXPECT_TRUE(engine_->detach(file->reader(), true));
    EXPECT_EQ(target_.contents().size(), 1200u);
    EXPECT_EQ(server_->calls,
              (Calls{"end_call", "end_call", "commit", "resize 1200", "resize 1200", "drain", "close"}));
    EXPECT_EQ(engine_->files().find(target_.identity()), nullptr);
}

TEST_F(ForwardedWritingTest, all_handles_of_the_process_read_what_it_has_written) {
    const auto reader = test::attach(*engine_, target_, false);
    const auto file = must_open();
    const auto bytes = bytes_of(3000, 3);
    ASSERT_TRUE(write(*file, 0, bytes));
    EXPECT_TRUE(same(test::read(*reader, 0, bytes.size()), bytes));
    const auto later = test::attach(*engine_, target_, false);
    EXPECT_EQ(later->size(), bytes.size());
    EXPECT_TRUE(same(test::read(*later, 0, bytes.size()), bytes));
    EXPECT_TRUE(engine_->detach(file->reader(), true));
    EXPECT_TRUE(same(test::read(*reader, 0, bytes.size()), bytes));
    EXPECT_TRUE(engine_->detach(later, false));
    EXPECT_TRUE(engine_->detach(reader, false));
}

TEST_F(ForwardedWritingTest, no_other_handle_writes_the_file_beside_the_server) {
    {
        const auto file = must_open();
        EXPECT_EQ(engine_->attach({target_.open(), true}).status().sys_errno(), EBUSY);
        EXPECT_EQ(open().status().sys_errno(), EBUSY);
        EXPECT_TRUE(engine_->detach(file->reader(), true));
    }
    const auto staged = test::attach(*engine_, target_);
    EXPECT_TRUE(staged->staged());
    EXPECT_EQ(open().status().sys_errno(), EBUSY);
    EXPECT_TRUE(engine_->detach(staged, true));
    EXPECT_TRUE(engine_->detach(must_open()->reader(), true));
}

TEST_F(ForwardedWritingTest, stepping_aside_is_the_server_s_affair) {
    const auto file = must_open();
    const auto bytes = bytes_of(100, 4);
    ASSERT_TRUE(engine_->files().step_aside(target_.identity(), ledger::AsideReason::kSwmr));
    ASSERT_TRUE(write(*file, 0, bytes));
    EXPECT_TRUE(same(target_.contents(), bytes));
    EXPECT_EQ(server_->calls, (Calls{"step_aside", "end_call"}));
    EXPECT_NE(file->reader()->counters().aside & 1u << static_cast<unsigned>(ledger::AsideReason::kSwmr), 0u);
    EXPECT_TRUE(engine_->detach(file->reader(), true));
    EXPECT_TRUE(engine_->files().step_aside(target_.identity(), ledger::AsideReason::kSwmr));   // it is closed
}

TEST_F(ForwardedWritingTest, after_a_failed_close_the_process_reads_from_the_server_and_opens_it_no_more) {
    const auto bytes = bytes_of(2000, 5);
    {
        const auto file = must_open();
        ASSERT_TRUE(write(*file, 0, bytes));
        server_->close_failure = Status::from_errno(EIO, "the server's close");
        EXPECT_EQ(engine_->detach(file->reader(), true).sys_errno(), EIO);
    }
    const auto known = engine_->files().find(target_.identity());
    ASSERT_NE(known, nullptr);
    EXPECT_TRUE(known->lifecycle().failed());
    EXPECT_FALSE(known->lifecycle().leaves_log());
    EXPECT_EQ(known->size(), bytes.size());
    EXPECT_EQ(known->counters().error, static_cast<std::uint64_t>(EIO));
    const auto reader = test::attach(*engine_, target_, false);
    EXPECT_TRUE(same(test::read(*reader, 0, bytes.size()), bytes));
    EXPECT_EQ(open().status().sys_errno(), EIO);
    EXPECT_EQ(engine_->attach({target_.open(), true}).status().sys_errno(), EIO);
    EXPECT_TRUE(engine_->detach(reader, false));
    EXPECT_TRUE(target_.contents().empty());
}

TEST_F(ForwardedWritingTest, a_withheld_file_fails_its_close) {
    const auto file = must_open();
    ASSERT_TRUE(write(*file, 0, bytes_of(10, 6)));
    file->withhold({Code::kUnavailable, "another rank's write failed", ENOSPC});
    EXPECT_EQ(engine_->detach(file->reader(), true).sys_errno(), ENOSPC);
    EXPECT_TRUE(target_.contents().empty());
}

TEST_F(ForwardedWritingTest, a_withheld_file_commits_again_once_it_is_whole) {
    const auto file = must_open();
    const auto bytes = bytes_of(10, 6);
    ASSERT_TRUE(write(*file, 0, bytes));
    file->withhold({Code::kUnavailable, "a write failed", ENOSPC});
    const auto calls = server_->calls;
    EXPECT_EQ(file->commit().sys_errno(), ENOSPC);
    EXPECT_EQ(file->step_aside(ledger::AsideReason::kHandleTaken).sys_errno(), ENOSPC);
    EXPECT_EQ(server_->calls, calls);
    file->withhold(Status::ok());
    EXPECT_TRUE(file->commit());
    EXPECT_TRUE(engine_->detach(file->reader(), true));
    EXPECT_TRUE(same(target_.contents(), bytes));
}

TEST_F(ForwardedWritingTest, the_end_of_the_process_closes_a_file_that_the_program_did_not) {
    const auto file = must_open();
    const auto bytes = bytes_of(700, 7);
    ASSERT_TRUE(write(*file, 0, bytes));
    EXPECT_TRUE(engine_->end_of_process().empty());
    EXPECT_TRUE(same(target_.contents(), bytes));
    EXPECT_EQ(server_->calls.back(), "close");
    EXPECT_TRUE(engine_->detach(file->reader(), true));   // HDF5's own exit handler, later
    EXPECT_EQ(std::ranges::count(server_->calls, "close"), 1);
}

TEST_F(ForwardedWritingTest, a_program_that_learns_offsets_finds_its_bytes_there_and_in_the_next_open) {
    const auto file = must_open();
    ASSERT_TRUE(file->expose_offsets());
    EXPECT_EQ(server_->calls, Calls{"step_aside"});
    EXPECT_TRUE(engine_->detach(file->reader(), true));
    const auto next = test::attach(*engine_, target_);
    EXPECT_FALSE(next->staged());
    EXPECT_TRUE(engine_->detach(next, true));
}

class DurableForwardedWriting : public ForwardedWritingTest {
  protected:
    DurableForwardedWriting() : ForwardedWritingTest(durable_options()) {}
    static LoadedOptions durable_options() {
        LoadedOptions loaded = small_options();
        loaded.options.durability = Durability::kNode;
        loaded.options.flush = OnFlush::kDrain;
        return loaded;
    }
};

TEST_F(DurableForwardedWriting, a_flush_drains_and_syncs_once_for_each_change) {
    const auto file = must_open();
    ASSERT_TRUE(file->commit());   // the open may have changed the file
    ASSERT_TRUE(file->commit());
    ASSERT_TRUE(write(*file, 0, bytes_of(10, 8)));
    ASSERT_TRUE(file->commit());
    ASSERT_TRUE(write(*file, 0, bytes_of(10, 9)));
    EXPECT_TRUE(engine_->detach(file->reader(), true));
    EXPECT_EQ(server_->calls, (Calls{"commit", "drain", "sync", "commit", "drain", "end_call", "commit", "drain",
                                     "sync", "end_call", "close", "sync"}));
}

}   // namespace
}   // namespace forebay::stage
