// The target behind a close that did not wait, which other programs may change: their content stays, and is told of.
// What has failed and become whole; changes of size that come late.
#include <gtest/gtest.h>

#include <cerrno>
#include <mutex>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/jumping_clock.h"
#include "support/left_threads.h"

namespace forebay {
namespace {

using io::FaultPlan;
using io::Operation;
using stage::ByteClass;
using test::Area;
using test::Target;
using Content = std::vector<std::byte>;

// The times of a file, for all that have it open.
struct Times {
    std::mutex mutex;
    std::uint64_t now_ns = 1000, modified_ns = 1000, changed_ns = 1000;
    std::uint64_t looks = 0;
    std::uint32_t links = 1;
    std::function<void(std::uint64_t look)> before_look;   // counted from the first one after it was set

    void write() {
        const std::lock_guard lock(mutex);
        modified_ns = changed_ns = now_ns += 10;
    }
    void set(std::uint64_t modified) {
        const std::lock_guard lock(mutex);
        modified_ns = modified;
        changed_ns = now_ns += 10;
    }
    void hook(std::function<void(std::uint64_t)> act) {
        const std::lock_guard lock(mutex);
        looks = 0;
        before_look = std::move(act);
    }
};

class TimedFile final : public io::ForwardingFile {
  public:
    TimedFile(std::unique_ptr<io::File> file, std::shared_ptr<Times> times)
        : ForwardingFile(std::move(file)), times_(std::move(times)) {}
    io::FileTraits traits() override { return {.times = io::TimesKind::kServed}; }
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        return noted(ForwardingFile::write_at(offset, bytes));
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        return noted(ForwardingFile::write_gather_at(offset, pieces));
    }
    Status resize(std::uint64_t size) override { return noted(ForwardingFile::resize(size)); }
    Result<io::FileState> state(Ask) override {
        std::function<void(std::uint64_t)> act;
        std::uint64_t look = 0;
        {
            const std::lock_guard lock(times_->mutex);
            act = times_->before_look;
            look = ++times_->looks;
        }
        if (act) act(look);
        const auto bytes = size();
        if (!bytes) return bytes.status();
        const std::lock_guard lock(times_->mutex);
        return io::FileState{.size = bytes.value(),
                             .modified_ns = times_->modified_ns,
                             .changed_ns = times_->changed_ns,
                             .links = times_->links};
    }

  private:
    Status noted(Status done) {
        if (done) times_->write();
        return done;
    }
    const std::shared_ptr<Times> times_;
};

class BehindClose : public testing::Test {
  protected:
    static constexpr std::uint64_t kBytes = 200'000;
    BehindClose() {
        options_ = test::small_options();
        options_.options.close = OnClose::kDeferred;
        options_.options.write_max = options_.options.stripe = 16 << 10;
        options_.options.drain_threads = 1;
    }
    ~BehindClose() override { plan_->let_go(); }

    std::shared_ptr<stage::StagedFile> attach(bool writable = true) {
        auto attached = engine_->attach({std::make_unique<TimedFile>(target_.open(plan_), times_), writable});
        EXPECT_TRUE(attached) << attached.status().message();
        return attached.value().file;
    }
    // The close has returned, and the first write of the drain hangs. The target has its final size before: a write
    // that hangs already when the file is closed would keep the close from setting it.
    std::shared_ptr<stage::StagedFile> close_while_a_write_hangs() {
        cut_natively(kBytes);
        engine_ = stage::Engine::create(options_, area_.opener());
        const auto file = attach();
        plan_->hang(Operation::kWrite);
        EXPECT_TRUE(file->write(0, bytes_, ByteClass::kMetadata));
        EXPECT_TRUE(close_deferred(file));
        EXPECT_TRUE(plan_->await_hanging());
        return file;
    }
    // ... and has hung already when the program closed it, so that the close could not set the target's size.
    std::shared_ptr<stage::StagedFile> close_behind_a_write_that_hangs() {
        engine_ = stage::Engine::create(options_, area_.opener());
        const auto file = attach();
        plan_->hang(Operation::kWrite);
        EXPECT_TRUE(file->write(0, bytes_, ByteClass::kRaw));   // which drains before anything is committed
        EXPECT_TRUE(plan_->await_hanging());
        EXPECT_TRUE(close_deferred(file));
        EXPECT_EQ(target_.contents().size(), 0u);
        return file;
    }
    bool close_deferred(const std::shared_ptr<stage::StagedFile>& file) {
        const auto detached = engine_->detach(file, true, [](stage::Ended) { return Status::ok(); });
        EXPECT_TRUE(detached.outcome) << detached.outcome.message();
        return detached.deferred;
    }
    // Another program's.
    void write_natively(std::uint64_t offset, io::Bytes bytes) {
        TimedFile file(target_.open(), times_);
        ASSERT_TRUE(file.write_at(offset, bytes));
    }
    void cut_natively(std::uint64_t size) {
        TimedFile file(target_.open(), times_);
        ASSERT_TRUE(file.resize(size));
    }
    void expect_told(const Status& failure, const std::string& why) {
        EXPECT_EQ(failure.sys_errno(), log::kChangedByOthers) << failure.message();
        EXPECT_NE(failure.message().find("another program has changed it since its close"), std::string::npos)
            << failure.message();
        EXPECT_NE(failure.message().find(why), std::string::npos) << failure.message();
        EXPECT_NE(failure.message().find("/scratch/run.h5"), std::string::npos) << failure.message();
    }

    LoadedOptions options_;
    Area area_;
    Target target_;
    std::shared_ptr<Times> times_ = std::make_shared<Times>();
    std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
    const Content bytes_ = test::bytes_of(kBytes, 1), theirs_ = test::bytes_of(5000, 2);
    std::unique_ptr<stage::Engine> engine_;
};

TEST_F(BehindClose, a_file_that_others_leave_alone_is_drained_whole) {
    const auto file = close_while_a_write_hangs();
    plan_->let_go();
    EXPECT_TRUE(engine_->closes().await_all());
    EXPECT_TRUE(test::same(target_.contents(), bytes_));
    EXPECT_FALSE(file->lifecycle().failed());
}

TEST_F(BehindClose, several_writes_are_under_way_at_a_time_as_before_the_close) {
    options_.options.drain_threads = 3;
    const auto file = close_while_a_write_hangs();
    plan_->let_go();
    EXPECT_TRUE(engine_->closes().await_all());
    EXPECT_TRUE(test::same(target_.contents(), bytes_));
}

TEST_F(BehindClose, another_program_that_cuts_it_during_a_write_ends_the_drain) {
    const auto file = close_while_a_write_hangs();
    cut_natively(0);
    plan_->let_go();
    expect_told(engine_->closes().await_all(), "it has 16384 bytes");
    EXPECT_EQ(target_.contents().size(), 16384u) << "the one write that was under way";
    EXPECT_TRUE(file->lifecycle().failed() && file->lifecycle().leaves_log() && file->lifecycle().left_to_others());
    EXPECT_GT(file->counters().pending, 0u);
    EXPECT_EQ(file->counters().error, static_cast<std::uint64_t>(log::kChangedByOthers));
}

// ---- what was taken before the close -------------------------------------------------------------------

TEST_F(BehindClose, a_file_whose_size_could_not_be_set_at_the_close_is_drained_whole) {
    const auto file = close_behind_a_write_that_hangs();
    plan_->let_go();
    EXPECT_TRUE(engine_->closes().await_all());
    EXPECT_TRUE(test::same(target_.contents(), bytes_));
}

TEST_F(BehindClose, a_size_that_could_not_be_set_at_the_close_does_not_undo_a_cut) {
    const auto file = close_behind_a_write_that_hangs();
    times_->hook([&](std::uint64_t look) {
        if (look == 1) cut_natively(100);   // the write that was under way has come
    });
    plan_->let_go();
    expect_told(engine_->closes().await_all(), "it has 100 bytes");
    times_->hook({});
    EXPECT_EQ(target_.contents().size(), 100u);
}

// What the write that was under way has left cannot be longer than that.
TEST_F(BehindClose, a_size_that_could_not_be_set_at_the_close_does_not_undo_what_another_program_appends) {
    const auto file = close_behind_a_write_that_hangs();
    times_->hook([&](std::uint64_t look) {
        if (look == 1) write_natively(20'000, theirs_);
    });
    plan_->let_go();
    expect_told(engine_->closes().await_all(), "it has 25000 bytes, and had 16384");
    times_->hook({});
    EXPECT_EQ(target_.contents().size(), 25'000u);
}

// ---- what others write ---------------------------------------------------------------------------------

TEST_F(BehindClose, another_programs_content_of_the_same_size_stays_and_is_what_this_process_reads) {
    const auto file = close_while_a_write_hangs();
    times_->hook([&](std::uint64_t look) {
        if (look == 2) write_natively(kBytes - theirs_.size(), theirs_);   // before the second turn
    });
    plan_->let_go();
    expect_told(engine_->closes().await_all(), "it was written to");
    times_->hook({});
    const Content now = target_.contents();
    ASSERT_EQ(now.size(), kBytes);
    EXPECT_TRUE(std::equal(theirs_.begin(), theirs_.end(), now.end() - theirs_.size()));
    const auto again = attach(false);
    EXPECT_TRUE(test::same(test::read(*again, 0, kBytes), now));
    // As it is then, not as it was when the drain ended.
    cut_natively(100);
    const auto once_more = attach(false);
    EXPECT_EQ(once_more->size(), 100u);
    EXPECT_TRUE(engine_->detach(again, false));
    EXPECT_TRUE(engine_->detach(once_more, false));
}

TEST_F(BehindClose, recovery_leaves_what_another_program_has_written) {
    const auto file = close_while_a_write_hangs();
    times_->hook([&](std::uint64_t look) {
        if (look == 2) write_natively(100, theirs_);
    });
    plan_->let_go();
    EXPECT_FALSE(engine_->closes().await_all());
    times_->hook({});
    const Content now = target_.contents();
    test::Crash crash(*area_.shared_open(), [&] { return target_.contents(); }, target_.identity());
    const auto report = crash.recover();
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 1u);
    EXPECT_EQ(report.value().files.front().reason, recover::Reason::kChanged)
        << report.value().files.front().status.message();
    EXPECT_TRUE(test::same(crash.contents(), now));
}

TEST_F(BehindClose, times_that_another_program_sets_do_not_end_the_drain) {
    const auto file = close_while_a_write_hangs();
    times_->hook([&](std::uint64_t look) {
        if (look == 2 || look == 5) times_->set(look);
    });
    plan_->let_go();
    EXPECT_TRUE(engine_->closes().await_all());
    EXPECT_TRUE(test::same(target_.contents(), bytes_));
}

// cp -p: the size is the same, and the times are old.
TEST_F(BehindClose, a_copy_of_the_same_size_with_old_times_is_told_by_its_content) {
    const auto file = close_while_a_write_hangs();
    times_->hook([&](std::uint64_t look) {
        if (look != 2) return;
        write_natively(0, test::bytes_of(kBytes, 3));
        times_->set(7);
    });
    plan_->let_go();
    expect_told(engine_->closes().await_all(), "its times were set");
    times_->hook({});
    EXPECT_TRUE(test::same(target_.contents(), test::bytes_of(kBytes, 3)));
}

TEST_F(BehindClose, a_file_that_was_removed_before_it_had_drained_is_told_of_once) {
    std::vector<std::string> warnings;
    const auto file = [&] {
        const auto closed = close_while_a_write_hangs();
        engine_->warn_by([&](const std::string& text) { warnings.push_back(text); });
        return closed;
    }();
    times_->hook([&](std::uint64_t look) {
        const std::lock_guard lock(times_->mutex);
        if (look == 2) times_->links = 0;
    });
    plan_->let_go();
    EXPECT_TRUE(engine_->closes().await_all());
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings.front().find("/scratch/run.h5: it was removed after its close"), std::string::npos);
    EXPECT_TRUE(test::same(target_.contents(), bytes_));
    EXPECT_NE(engine_->statistics().find("\"nameless\":1"), std::string::npos);
}

TEST_F(BehindClose, a_target_that_cannot_be_looked_at_is_not_written) {
    const auto file = close_while_a_write_hangs();
    plan_->clear();
    plan_->fail(Operation::kSize, 1, 1'000'000, EIO);
    plan_->let_go();
    const Status failure = engine_->closes().await_all();
    EXPECT_EQ(failure.sys_errno(), EIO) << failure.message();
    EXPECT_FALSE(file->lifecycle().left_to_others());
    EXPECT_TRUE(file->lifecycle().leaves_log());
}

// ---- changes of size -----------------------------------------------------------------------------------

TEST_F(BehindClose, what_another_program_appends_is_not_cut_off_by_a_file_that_grows) {
    options_.options.close = OnClose::kWait;
    engine_ = stage::Engine::create(options_, area_.opener());
    const auto file = attach();
    ASSERT_TRUE(file->write(0, theirs_, ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    ASSERT_TRUE(file->truncate(10'000));
    write_natively(20'000, theirs_);
    ASSERT_TRUE(file->commit());
    ASSERT_TRUE(file->drain());
    EXPECT_EQ(target_.contents().size(), 25'000u);
}

TEST_F(BehindClose, a_cut_does_not_take_what_another_program_has_appended_since) {
    options_.options.close = OnClose::kWait;
    engine_ = stage::Engine::create(options_, area_.opener());
    const auto file = attach();
    ASSERT_TRUE(file->write(0, bytes_, ByteClass::kRaw));
    ASSERT_TRUE(file->commit());
    ASSERT_TRUE(file->drain());
    ASSERT_TRUE(file->truncate(1000));
    write_natively(kBytes, theirs_);
    (void)file->commit();
    const Status closed = engine_->detach(file, true);
    EXPECT_EQ(closed.sys_errno(), log::kChangedByOthers) << closed.message();
    EXPECT_EQ(target_.contents().size(), kBytes + theirs_.size());
}

TEST_F(BehindClose, a_change_of_size_that_hangs_is_given_up_and_is_seen_by_others) {
    test::left_on_purpose = true;
    options_.options.close = OnClose::kWait;
    const auto clock = std::make_shared<test::JumpingClock>([plan = plan_] { return plan->hanging(); });
    engine_ = stage::Engine::create(options_, area_.opener(), clock);
    const auto file = attach();
    ASSERT_TRUE(file->write(0, theirs_, ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    plan_->hang(Operation::kResize);
    ASSERT_TRUE(file->truncate(100'000));
    (void)file->commit();
    EXPECT_EQ(file->counters().pending, 0u);
    EXPECT_NE(file->counters().oldest_ns, 0u);
    EXPECT_EQ(engine_->detach(file, true).sys_errno(), ETIMEDOUT);
    EXPECT_TRUE(file->lifecycle().leaves_log());
    engine_.reset();
    plan_->let_go();
}

// ---- what has become whole -----------------------------------------------------------------------------

TEST_F(BehindClose, a_failure_is_forgotten_once_everything_has_arrived) {
    options_.options.close = OnClose::kWait;
    engine_ = stage::Engine::create(options_, area_.opener());
    const auto file = attach();
    plan_->fail(Operation::kWrite, 1, 1'000'000, ENOSPC);
    ASSERT_TRUE(file->write(0, bytes_, ByteClass::kRaw));
    EXPECT_EQ(file->drain().sys_errno(), ENOSPC);
    EXPECT_EQ(file->commit().sys_errno(), ENOSPC);
    EXPECT_EQ(file->counters().error, static_cast<std::uint64_t>(ENOSPC));
    plan_->clear();   // there is room again
    EXPECT_TRUE(file->commit());
    EXPECT_EQ(file->counters().error, 0u);
    EXPECT_EQ(file->counters().pending, 0u);
    EXPECT_TRUE(file->write(0, theirs_, ByteClass::kRaw));
    EXPECT_TRUE(engine_->detach(file, true));
    Content now = bytes_;
    std::copy(theirs_.begin(), theirs_.end(), now.begin());
    EXPECT_TRUE(test::same(target_.contents(), now));
    EXPECT_NE(engine_->statistics().find("\"made_good\":1"), std::string::npos) << engine_->statistics();
}

TEST_F(BehindClose, a_close_succeeds_if_what_had_failed_arrives_with_it) {
    options_.options.close = OnClose::kWait;
    engine_ = stage::Engine::create(options_, area_.opener());
    const auto file = attach();
    plan_->fail(Operation::kWrite, 1, 1, EIO);
    ASSERT_TRUE(file->write(0, bytes_, ByteClass::kRaw));
    EXPECT_EQ(file->drain().sys_errno(), EIO);
    EXPECT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(test::same(target_.contents(), bytes_));
}

}   // namespace
}   // namespace forebay
