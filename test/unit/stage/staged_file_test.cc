#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <random>
#include <thread>

#include "io/forwarding_file.h"
#include "log/scan.h"
#include "support/engine_fixture.h"

namespace forebay {
namespace {

using stage::ByteClass;
using stage::Engine;
using test::Area;
using test::Target;

TEST(StagedFile, reads_what_was_written_before_anything_is_drained) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    const auto bytes = test::bytes_of(1000, 1);
    ASSERT_TRUE(file->write(100, bytes, ByteClass::kMetadata));
    EXPECT_EQ(test::read(*file, 100, 1000), bytes);
    EXPECT_EQ(test::read(*file, 0, 100), std::vector<std::byte>(100));
    EXPECT_EQ(file->size(), 1100u);
    EXPECT_TRUE(target.contents().empty()) << "uncommitted metadata must not reach the target";
    EXPECT_EQ(file->counters().held, 1000u);
    ASSERT_TRUE(engine->detach(file, true));
    EXPECT_EQ(target.contents().size(), 1100u);
}

TEST(StagedFile, metadata_reaches_the_target_only_after_its_commit) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    ASSERT_TRUE(file->write(0, test::bytes_of(96, 1), ByteClass::kMetadata));
    ASSERT_TRUE(file->write(4096, test::bytes_of(1 << 20, 2), ByteClass::kRaw));   // drains at once
    ASSERT_TRUE(file->commit());
    ASSERT_TRUE(file->write(0, test::bytes_of(96, 3), ByteClass::kMetadata));
    ASSERT_TRUE(file->write(4096, test::bytes_of(50, 4), ByteClass::kRaw));   // below the committed end: held
    EXPECT_EQ(file->counters().held, 96u + 50u);
    EXPECT_EQ(test::read(*file, 0, 96), test::bytes_of(96, 3));
    ASSERT_TRUE(engine->detach(file, true));
    const auto contents = target.contents();
    EXPECT_TRUE(test::same({contents.begin(), contents.begin() + 96}, test::bytes_of(96, 3)));
}

TEST(StagedFile, many_small_writes_become_few_target_writes) {
    LoadedOptions loaded = test::small_options();
    loaded.options.stripe = loaded.options.write_max = 64 << 10;
    Area area;
    Target target;
    auto engine = Engine::create(loaded, area.opener());
    auto file = test::attach(*engine, target);
    for (std::uint64_t i = 0; i < 512; ++i)
        ASSERT_TRUE(file->write(i * 4096, test::bytes_of(4096, i), ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    const auto counters = file->counters();
    EXPECT_EQ(counters.requests, 512u);
    EXPECT_EQ(counters.drained, 512u * 4096);
    EXPECT_LE(counters.target_writes, 2u * (512 * 4096 / (64 << 10)));
    ASSERT_TRUE(engine->detach(file, true));
}

// A file that tells when so many bytes have been written to it.
class CountedFile final : public io::ForwardingFile {
  public:
    struct Count {
        std::mutex mutex;
        std::condition_variable changed;
        std::uint64_t bytes = 0;
        std::vector<std::uint64_t> offsets;   // of the writes
        bool held_up = false;                 // writes wait until they are let go

        void add(std::uint64_t offset, std::uint64_t more) {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return !held_up; });
            offsets.push_back(offset);
            bytes += more;
            changed.notify_all();
        }
        void let_go() {
            const std::lock_guard lock(mutex);
            held_up = false;
            changed.notify_all();
        }
        // False: not within a time that is long on any machine.
        bool wait_for(std::uint64_t wanted) {
            std::unique_lock lock(mutex);
            return changed.wait_for(lock, std::chrono::seconds(250), [&] { return bytes >= wanted; });
        }
    };

    CountedFile(std::shared_ptr<io::File> file, std::shared_ptr<Count> count)
        : ForwardingFile(std::move(file)), count_(std::move(count)) {}
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        FOREBAY_TRY(file().write_at(offset, bytes));
        count_->add(offset, bytes.size());
        return Status::ok();
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        FOREBAY_TRY(file().write_gather_at(offset, pieces));
        std::uint64_t bytes = 0;
        for (const io::Bytes& piece : pieces) bytes += piece.size();
        count_->add(offset, bytes);
        return Status::ok();
    }

  private:
    std::shared_ptr<Count> count_;
};

// Small pieces may wait for neighbours, but not while the log cannot be used again because of them: a segment is given
// back only when all that are older have been. So a piece goes alone once as much as it, and 16 MiB, lie dead behind
// it.
TEST(StagedFile, a_small_piece_does_not_keep_the_log_from_being_used_again) {
    constexpr std::uint64_t kStripe = 1 << 20, kPart = 128 << 10, kStripes = 128, kLate = 4;
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 192 << 20;
    loaded.options.segment = loaded.options.stripe = kStripe;
    loaded.options.write_max = 4 << 20;
    Area area;
    Target target;
    auto engine = Engine::create(loaded, area.opener());
    auto written = std::make_shared<CountedFile::Count>();
    auto attached = engine->attach({std::make_unique<CountedFile>(target.open(), written), true});
    ASSERT_TRUE(attached);
    const auto file = attached.value().file;
    const auto small = test::bytes_of(32 << 10, 1), part = test::bytes_of(kPart, 2);
    ASSERT_TRUE(file->write(0, small, ByteClass::kRaw));
    for (std::uint64_t i = 1; i <= kStripes; ++i) {
        // Larger writes would pass by the log: the target is memory.
        for (std::uint64_t at = 0; at < kStripe; at += kPart)
            ASSERT_TRUE(file->write((i + 1) * kStripe + at, part, ByteClass::kRaw));
        // Nothing else waits but what is not worth a plan yet.
        ASSERT_TRUE(written->wait_for((i - std::min(i, kLate)) * kStripe)) << "stripe " << i;
    }
    const auto names = area.left();
    ASSERT_EQ(names.size(), 1u);
    auto log = area.shared_open()->open_directory(names.front()).value()->open_file("log", io::OpenMode::kRead).value();
    EXPECT_GT(log->size().value(), std::uint64_t{16} << 20) << "it has waited";
    EXPECT_LT(log->size().value(), std::uint64_t{96} << 20) << "of 128 MiB that were written";
    ASSERT_TRUE(engine->detach(file, true));
}

// A plan takes only so much of a run that is much longer: where it ends, the next one goes on, and both keep to the
// stripes.
TEST(StagedFile, plans_of_one_long_run_meet_at_stripe_boundaries) {
    constexpr std::uint64_t kStripe = 64 << 10, kPart = 7000;
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 64 << 20;
    loaded.options.segment = 1 << 20;
    loaded.options.stripe = loaded.options.write_max = kStripe;
    Area area;
    Target target;
    auto engine = Engine::create(loaded, area.opener());
    auto written = std::make_shared<CountedFile::Count>();
    auto attached = engine->attach({std::make_unique<CountedFile>(target.open(), written), true});
    ASSERT_TRUE(attached);
    const auto file = attached.value().file;
    written->held_up = true;   // so that plans find more than they take
    for (std::uint64_t i = 0; i < 1000; ++i)
        ASSERT_TRUE(file->write(i * kPart, test::bytes_of(kPart, i), ByteClass::kRaw));
    written->let_go();
    ASSERT_TRUE(engine->detach(file, true));
    EXPECT_EQ(written->bytes, 1000 * kPart);
    EXPECT_EQ(written->offsets.size(), (1000 * kPart + kStripe - 1) / kStripe);
    for (const std::uint64_t offset : written->offsets) EXPECT_EQ(offset % kStripe, 0u) << offset;
}

// Others write where the drain has been already, while the end of the file still grows: what they have written goes
// too.
TEST(StagedFile, a_growing_end_does_not_keep_what_lies_before_it_from_draining) {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 64 << 20;
    loaded.options.segment = 1 << 20;
    loaded.options.stripe = 1 << 20;
    loaded.options.write_max = 4 << 20;
    Area area;
    Target target;
    auto engine = Engine::create(loaded, area.opener());
    auto written = std::make_shared<CountedFile::Count>();
    auto attached = engine->attach({std::make_unique<CountedFile>(target.open(), written), true});
    ASSERT_TRUE(attached);
    const auto file = attached.value().file;
    const auto large = test::bytes_of(3 << 20, 1), end = test::bytes_of(300 << 10, 2);
    ASSERT_TRUE(file->write(30 << 20, large, ByteClass::kRaw));
    ASSERT_TRUE(written->wait_for(large.size()));
    ASSERT_TRUE(file->write(33 << 20, end, ByteClass::kRaw));
    ASSERT_TRUE(file->write(10 << 20, large, ByteClass::kRaw));
    // A plan may end anywhere in what is written meanwhile. The next one then finds less than half a stripe on either
    // side of a boundary, and leaves that until a stripe more has come: with the end, less than two stripes and what
    // the end has.
    EXPECT_TRUE(written->wait_for(2 * (large.size() - loaded.options.stripe))) << "what fills a gap waits for the end";
    ASSERT_TRUE(engine->detach(file, true));
}

TEST(StagedFile, overwritten_bytes_are_counted_as_superseded_and_never_written) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(file->write(0, test::bytes_of(1000, i), ByteClass::kMetadata));
    EXPECT_EQ(file->counters().superseded, 9000u);
    ASSERT_TRUE(engine->detach(file, true));
    EXPECT_EQ(target.contents(), test::bytes_of(1000, 9));
}

TEST(StagedFile, staged_drained_superseded_and_pending_add_up) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    for (std::uint64_t i = 0; i < 50; ++i)
        ASSERT_TRUE(file->write((i * 7919) % 100000, test::bytes_of(3000, i), ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    const auto counters = file->counters();
    EXPECT_EQ(counters.staged, 50u * 3000);
    EXPECT_EQ(counters.staged, counters.drained + counters.superseded + counters.pending);
    EXPECT_EQ(counters.pending, 0u);
    ASSERT_TRUE(engine->detach(file, true));
}

TEST(StagedFile, a_background_failure_is_reported_by_every_later_flush_and_close_and_loses_nothing) {
    Area area;
    Target target;
    auto plan = std::make_shared<io::FaultPlan>();
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target, true, plan);
    const auto bytes = test::bytes_of(100000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    plan->fail(io::Operation::kWrite, 1, UINT64_MAX, EIO);
    const Status drained = file->drain();
    EXPECT_EQ(drained.sys_errno(), EIO);
    EXPECT_THAT(drained.message(), testing::HasSubstr("/scratch"));
    EXPECT_TRUE(file->write(0, bytes, ByteClass::kRaw)) << "bytes are still taken, and kept";
    EXPECT_EQ(file->commit().sys_errno(), EIO);
    EXPECT_EQ(file->commit().sys_errno(), EIO) << "again";
    EXPECT_TRUE(test::same(test::read(*file, 0, 100000), bytes)) << "staged bytes stay readable";
    const Status closed = engine->detach(file, true);
    EXPECT_EQ(closed.sys_errno(), EIO);
    EXPECT_THAT(closed.message(), testing::HasSubstr("bytes stay in the staging log"));

    auto again = engine->attach({target.open(), true});
    EXPECT_FALSE(again) << "a file whose bytes are in the log only is not written anew";
    auto reader = test::attach(*engine, target, false);
    EXPECT_TRUE(test::same(test::read(*reader, 0, 100000), bytes));
    ASSERT_TRUE(engine->detach(reader, false));
    engine.reset();
    EXPECT_EQ(area.left().size(), 1u) << "the log stays for recovery";
}

TEST(StagedFile, close_drains_what_an_earlier_failure_left_and_succeeds) {
    Area area;
    Target target;
    auto plan = std::make_shared<io::FaultPlan>();
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target, true, plan);
    const auto bytes = test::bytes_of(100000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kMetadata));
    plan->fail(io::Operation::kWrite, 1, 1, ENOSPC);
    EXPECT_EQ(file->drain().sys_errno(), ENOSPC);
    EXPECT_TRUE(engine->detach(file, true));
    EXPECT_TRUE(test::same(target.contents(), bytes));
}

// Every operation on the target fails once, at every position: never wrong data, never a silent loss.
TEST(StagedFile, survives_a_fault_at_every_target_operation) {
    for (const int error : {EIO, ENOSPC}) {
        for (std::uint64_t nth = 1;; ++nth) {
            SCOPED_TRACE(testing::Message() << "errno " << error << " at operation " << nth);
            Area area;
            Target target;
            auto plan = std::make_shared<io::FaultPlan>();
            auto engine = Engine::create(test::small_options(), area.opener());
            auto file = test::attach(*engine, target, true, plan);
            plan->fail_any(nth, 1, error);
            std::vector<std::byte> oracle;
            bool failed = false;
            for (std::uint64_t i = 0; i < 30 && !failed; ++i) {
                const auto bytes = test::bytes_of(20000, i);
                failed = !file->write(i * 15000, bytes, i % 5 == 0 ? ByteClass::kMetadata : ByteClass::kRaw);
                if (!failed) {
                    oracle.resize(std::max<std::size_t>(oracle.size(), i * 15000 + bytes.size()));
                    std::copy(bytes.begin(), bytes.end(), oracle.begin() + static_cast<std::ptrdiff_t>(i * 15000));
                }
                if (i % 7 == 0) failed = !file->commit() || failed;
            }
            const Status closed = engine->detach(file, true);
            const bool complete = closed.is_ok() || closed.message().find("later attempt") != std::string::npos;
            if (complete) {
                EXPECT_TRUE(test::same(target.contents(), oracle));
            }
            if (plan->fired() == 0) break;
        }
    }
}

// Every operation on the staging area fails once, at every position: the program does not notice.
TEST(StagedFile, writes_through_when_the_staging_area_fails) {
    bool fired = true;
    for (std::uint64_t nth = 1; fired; ++nth) {
        SCOPED_TRACE(testing::Message() << "operation " << nth);
        Area area;
        Target target;
        auto plan = std::make_shared<io::FaultPlan>();
        plan->fail_any(nth, UINT64_MAX, EIO);
        auto engine = Engine::create(test::small_options(), area.opener(plan));
        auto file = test::attach(*engine, target);
        std::vector<std::byte> oracle;
        for (std::uint64_t i = 0; i < 20; ++i) {
            const auto bytes = test::bytes_of(20000, i);
            ASSERT_TRUE(file->write(i * 20000, bytes, ByteClass::kRaw));
            oracle.insert(oracle.end(), bytes.begin(), bytes.end());
        }
        ASSERT_TRUE(engine->detach(file, true));
        EXPECT_TRUE(test::same(target.contents(), oracle));
        fired = plan->fired() > 0;
        ASSERT_LT(nth, 1000u);
    }
}

TEST(StagedFile, stepping_aside_drains_first_and_writes_straight_afterwards) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    const auto first = test::bytes_of(5000, 1), second = test::bytes_of(5000, 2);
    ASSERT_TRUE(file->write(0, first, ByteClass::kMetadata));
    ASSERT_TRUE(file->lifecycle().step_aside(ledger::AsideReason::kSwmr));
    EXPECT_EQ(target.contents(), first);
    ASSERT_TRUE(file->write(5000, second, ByteClass::kRaw));
    EXPECT_EQ(target.contents().size(), 10000u);
    EXPECT_EQ(file->counters().through, 5000u);
    EXPECT_EQ(file->counters().aside, 1u << static_cast<unsigned>(ledger::AsideReason::kSwmr));
    ASSERT_TRUE(engine->detach(file, true));
}

// Zeros that a cut left behind are staged content like any other.
TEST(StagedFile, stepping_aside_brings_a_cut_home_that_nothing_else_follows) {
    Area area;
    Target target;
    ASSERT_TRUE(target.open()->write_at(0, test::bytes_of(10000, 1)));
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    ASSERT_TRUE(file->truncate(5000));
    ASSERT_TRUE(file->truncate(10000));
    ASSERT_TRUE(file->lifecycle().step_aside(ledger::AsideReason::kSwmr));
    auto expected = test::bytes_of(10000, 1);
    std::fill(expected.begin() + 5000, expected.end(), std::byte{0});
    EXPECT_TRUE(test::same(target.contents(), expected));
    const auto later = test::bytes_of(1000, 2);
    ASSERT_TRUE(file->write(6000, later, ByteClass::kRaw));
    EXPECT_EQ(test::read(*file, 6000, 1000), later);
    ASSERT_TRUE(engine->detach(file, true));
}

TEST(StagedFile, parts_of_one_write_are_read_and_drained_as_if_written_one_by_one) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    std::vector<std::byte> expected(900000);
    std::vector<std::vector<std::byte>> kept;
    std::vector<stage::StagedFile::Part> parts;
    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) {   // small and large ones, empty ones, overlapping ones, more than a segment takes
        const std::size_t size = i % 40 == 0 ? 90000 : i % 17 == 0 ? 0 : 1 + random() % 3000;
        kept.push_back(test::bytes_of(size, random()));
        const std::uint64_t at = random() % (expected.size() - size);
        parts.push_back({at, kept.back()});
        std::copy(kept.back().begin(), kept.back().end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
    }
    std::uint64_t end = 0, bytes = 0;
    for (const auto& part : parts) {
        if (!part.bytes.empty()) end = std::max(end, part.offset + part.bytes.size());
        bytes += part.bytes.size();
    }
    expected.resize(end);
    ASSERT_TRUE(file->write(parts, ByteClass::kRaw));
    EXPECT_EQ(file->size(), end);
    EXPECT_TRUE(test::same(test::read(*file, 0, end), expected));
    EXPECT_EQ(file->counters().requests, 1u);
    EXPECT_EQ(file->counters().staged + file->counters().through, bytes);
    EXPECT_GT(file->counters().staged, bytes / 2);
    ASSERT_TRUE(engine->detach(file, true));
    EXPECT_TRUE(test::same(target.contents(), expected));
}

TEST(StagedFile, many_small_parts_share_few_records) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    const auto bytes = test::bytes_of(8000, 1);
    std::vector<stage::StagedFile::Part> parts;
    for (std::uint64_t i = 0; i < 1000; ++i) parts.push_back({i * 20, io::Bytes(bytes).subspan(i * 8, 8)});
    ASSERT_TRUE(file->write(parts, ByteClass::kMetadata));
    auto log =
        area.shared_open()->open_directory(area.left().front()).value()->open_file("log", io::OpenMode::kRead).value();
    const auto logs = log::scan(*log);
    ASSERT_TRUE(logs);
    EXPECT_LE(logs.value().front().records.size(), 2u);
    EXPECT_EQ(log->size().value(), test::small_options().options.segment) << "one segment holds them all";
    for (std::uint64_t i = 0; i < 1000; i += 37)
        EXPECT_EQ(test::read(*file, i * 20, 8), std::vector(bytes.begin() + static_cast<std::ptrdiff_t>(i * 8),
                                                            bytes.begin() + static_cast<std::ptrdiff_t>(i * 8 + 8)));
    ASSERT_TRUE(engine->detach(file, true));
}

// Figure 8 and table I of the Compactor paper: overlapping writes become one, with the latest bytes of each place.
TEST(StagedFile, table_i_write_morphing_makes_one_write_of_overlapping_ones) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    const auto first = test::bytes_of(256, 1), second = test::bytes_of(256, 2);
    const auto parts = [](const std::vector<std::byte>& bytes, std::initializer_list<ByteRange> ranges) {
        std::vector<stage::StagedFile::Part> all;
        for (const ByteRange& range : ranges)
            all.push_back({range.begin, io::Bytes(bytes).subspan(range.begin, range.size())});
        return all;
    };
    ASSERT_TRUE(file->write(parts(first, {{0, 32}, {48, 96}, {96, 128}, {160, 256}}), ByteClass::kRaw));
    ASSERT_TRUE(file->write(parts(second, {{16, 64}, {80, 96}, {112, 160}, {176, 208}}), ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    auto expected = first;
    for (const ByteRange& range : {ByteRange{16, 64}, ByteRange{80, 96}, ByteRange{112, 160}, ByteRange{176, 208}})
        std::copy_n(second.begin() + static_cast<std::ptrdiff_t>(range.begin), range.size(),
                    expected.begin() + static_cast<std::ptrdiff_t>(range.begin));
    EXPECT_EQ(target.contents(), expected);
    EXPECT_EQ(file->counters().target_writes, 1u);
    EXPECT_EQ(file->counters().superseded, 16u + 16 + 16 + 16 + 32);
    EXPECT_EQ(file->counters().drained, 256u);
    ASSERT_TRUE(engine->detach(file, true));
}

// Figure 7 of the same paper: the read takes from two pending writes what they have, the rest from the file.
TEST(StagedFile, figure_7_write_stealing_serves_a_read_from_two_writes_and_the_file) {
    Area area;
    Target target;
    ASSERT_TRUE(target.open()->write_at(0, test::bytes_of(4096, 1)));
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target);
    auto expected = test::bytes_of(4096, 1);
    for (const std::uint64_t at : {512, 2048}) {
        const auto bytes = test::bytes_of(1024, at);
        ASSERT_TRUE(file->write(at, bytes, ByteClass::kRaw));
        std::copy(bytes.begin(), bytes.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
    }
    EXPECT_EQ(test::read(*file, 1000, 1500), std::vector(expected.begin() + 1000, expected.begin() + 2500));
    EXPECT_EQ(file->counters().stolen, (512u + 1024 - 1000) + (1000u + 1500 - 2048));
    EXPECT_EQ(file->counters().target_writes, 0u);
    ASSERT_TRUE(engine->detach(file, true));
    EXPECT_EQ(target.contents(), expected);
}

TEST(StagedFile, a_reader_and_a_writer_of_the_same_file_share_its_staged_state) {
    Area area;
    Target target;
    auto engine = Engine::create(test::small_options(), area.opener());
    auto reader = test::attach(*engine, target, false);
    auto writer = test::attach(*engine, target);
    EXPECT_EQ(reader.get(), writer.get());
    ASSERT_TRUE(writer->write(0, test::bytes_of(100, 1), ByteClass::kMetadata));
    EXPECT_EQ(test::read(*reader, 0, 100), test::bytes_of(100, 1));
    ASSERT_TRUE(engine->detach(writer, true));
    EXPECT_EQ(test::read(*reader, 0, 100), test::bytes_of(100, 1));
    EXPECT_FALSE(reader->write(0, test::bytes_of(1, 1), ByteClass::kRaw));
    ASSERT_TRUE(engine->detach(reader, false));
    EXPECT_EQ(engine->files().find(target.identity()), nullptr);
}

TEST(StagedFile, application_threads_read_and_write_while_it_drains) {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 512 << 10;
    Area area;
    Target target;
    auto engine = Engine::create(loaded, area.opener());
    auto file = test::attach(*engine, target);
    constexpr std::uint64_t kRegion = 256 << 10;
    constexpr std::size_t kThreads = 4;
    std::latch start(kThreads);
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            start.arrive_and_wait();
            std::vector<std::byte> mine(kRegion);
            std::mt19937_64 random(t);
            for (int i = 0; i < 150; ++i) {
                const auto bytes = test::bytes_of(1 + random() % 8000, random());
                const std::uint64_t at = random() % (kRegion - bytes.size());
                ASSERT_TRUE(file->write(t * kRegion + at, bytes, i % 3 == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
                std::copy(bytes.begin(), bytes.end(), mine.begin() + static_cast<std::ptrdiff_t>(at));
                if (i % 20 == 0) {
                    ASSERT_TRUE(file->commit());
                }
                ASSERT_TRUE(test::same(test::read(*file, t * kRegion, kRegion), mine));
            }
        });
    threads.clear();
    ASSERT_TRUE(engine->detach(file, true));
}

}   // namespace
}   // namespace forebay
