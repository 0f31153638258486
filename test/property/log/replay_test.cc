// What is left of a log says all that a commit promised: random writes, truncations and commits through an
// engine whose target gets stuck. The log that a death of the process would leave then, and the one that
// stays behind when the file is closed and the target fails, are recovered: the target equals a plain byte array at
// that commit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <random>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/scripted_file.h"
#include "support/seeds.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::Area;
using test::Target;

// How a target comes to its end: it carries out a number of calls, then keeps the next one waiting, and fails
// all of them once it is given up.
class Breakdown {
  public:
    explicit Breakdown(std::uint64_t calls_first) : left_(calls_first) {}
    // True: the call may be carried out.
    bool admit() {
        std::unique_lock lock(mutex_);
        if (given_up_) return false;
        if (left_ > 0) {
            --left_;
            return true;
        }
        stuck_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return given_up_; });
        return false;
    }
    void admit_no_more() {
        const std::lock_guard lock(mutex_);
        left_ = 0;
    }
    void wait_until_stuck() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stuck_; });
    }
    void give_up() {
        const std::lock_guard lock(mutex_);
        given_up_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t left_;
    bool stuck_ = false, given_up_ = false;
};

struct Flavour {
    const char* name;
    std::uint64_t calls_first_max;   // that the target carries out before it gets stuck
    bool truncations;
};
std::ostream& operator<<(std::ostream& out, const Flavour& flavour) { return out << flavour.name; }

// One file, its target, and what it should hold.
class Session {
  public:
    Session(const Flavour& flavour, std::uint64_t seed)
        : flavour_(flavour), random_(seed), breakdown_(below(flavour.calls_first_max)) {
        content_ = test::bytes_of(below(2) == 0 ? 0 : below(kSpace), seed);
        EXPECT_TRUE(target_.open()->write_at(0, content_));
        committed_ = content_;
        LoadedOptions loaded = test::small_options();
        loaded.options.size = 64 << 20;   // roomy: nothing waits for a target that is stuck
        loaded.options.segment = 32 << 10;
        loaded.options.drain_threads = 1;   // once this one is stuck, nothing changes but what the test does
        engine_ = stage::Engine::create(loaded, area_.opener());
        const auto breaking = [this](const test::FileCall& call) {
            const bool changes = call.operation == io::Operation::kWrite || call.operation == io::Operation::kResize;
            return !changes || breakdown_.admit() ? Status::ok() : Status::from_errno(EIO, "change /scratch/run.h5");
        };
        auto attached = engine_->attach({test::scripted(target_.open(), breaking), true});
        EXPECT_TRUE(attached);
        file_ = attached.value().file;
    }

    // Ends with the target stuck, and with a number of changes since the last commit.
    void run() {
        for (std::uint64_t left = 10 + below(200); left > 0; --left) change();
        breakdown_.admit_no_more();
        write(below(kSpace), 1, ByteClass::kRaw);
        commit();
        breakdown_.wait_until_stuck();
        for (std::uint64_t left = below(100); left > 0; --left) change();
    }
    Status close() {
        breakdown_.give_up();
        const Status closed = engine_->detach(file_, true);
        file_.reset();
        engine_.reset();
        return closed;
    }

    // What a death now would leave.
    test::Crash crash() const {
        return {*area_.shared_open(), [this] { return target_.contents(); }, target_.identity()};
    }
    const std::vector<std::byte>& content() const { return content_; }
    const std::vector<std::byte>& committed() const { return committed_; }

  private:
    static constexpr std::uint64_t kSpace = 200 << 10;
    static constexpr const char* kPath = "/scratch/run.h5";

    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

    void change() {
        switch (below(12)) {
            case 0: commit(); break;
            case 1:
                if (flavour_.truncations) truncate(below(kSpace));
                break;
            case 2:
            case 3:
            case 4:
            case 5:
                // Metadata comes back to the same few places, so that records are superseded.
                write(512 * below(40), 1 + below(4000), ByteClass::kMetadata);
                break;
            default: write(below(3) == 0 ? content_.size() : below(kSpace), 1 + below(20000), ByteClass::kRaw);
        }
    }
    void write(std::uint64_t offset, std::size_t size, ByteClass byte_class) {
        const auto bytes = test::bytes_of(size, random_());
        EXPECT_TRUE(file_->write(offset, bytes, byte_class));
        holds_metadata_ = holds_metadata_ || byte_class == ByteClass::kMetadata;
        if (content_.size() < offset + size) content_.resize(offset + size);
        std::copy(bytes.begin(), bytes.end(), content_.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    void truncate(std::uint64_t size) {
        EXPECT_TRUE(file_->truncate(size));
        content_.resize(size);
    }
    void commit() {
        // With nothing in the log, a commit of a cut is the target's to hold (docs/consistency.md): it would wait for
        // one that is stuck. Metadata cannot leave the log before its commit; and where nothing drains, nothing leaves
        // it.
        const bool in_log = flavour_.calls_first_max == 1 ? file_->counters().staged > 0 : holds_metadata_;
        if (flavour_.truncations && !in_log) write(512 * below(40), 1, ByteClass::kMetadata);
        EXPECT_TRUE(file_->commit());
        committed_ = content_;
        holds_metadata_ = false;
    }

    const Flavour& flavour_;
    std::mt19937_64 random_;
    Area area_;
    Target target_;
    Breakdown breakdown_;
    std::unique_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> file_;
    std::vector<std::byte> content_, committed_;
    bool holds_metadata_ = false;   // since the last commit
};

class Replay : public testing::TestWithParam<Flavour> {};
class ReplayAfterClose : public testing::TestWithParam<Flavour> {};

TEST_P(Replay, of_what_a_dead_process_leaves_gives_the_file_at_its_last_commit) {
    for (const std::uint64_t seed :
         test::seeds("of_what_a_dead_process_leaves_gives_the_file_at_its_last_commit", 30, {1, 2, 3, 1461885258})) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Session session(GetParam(), seed);
        session.run();
        test::Crash crash = session.crash();
        EXPECT_FALSE(session.close());
        const auto report = crash.recovered();
        ASSERT_TRUE(test::same(crash.contents(), session.committed()));
        EXPECT_EQ(report.outcome, recover::Outcome::kRecovered);
        EXPECT_EQ(report.size, session.committed().size());
        EXPECT_THAT(report.directories, testing::SizeIs(1));
        EXPECT_EQ(crash.asked_for, std::vector<std::string>{"/scratch/run.h5"});
    }
}

TEST_P(ReplayAfterClose, of_what_a_failed_close_leaves_gives_the_whole_file) {
    for (const std::uint64_t seed : test::seeds("of_what_a_failed_close_leaves_gives_the_whole_file", 30, {1, 2, 3})) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Session session(GetParam(), seed);
        session.run();
        const Status closed = session.close();
        EXPECT_EQ(closed.sys_errno(), EIO) << closed.message();
        test::Crash crash = session.crash();
        (void)crash.recovered();
        ASSERT_TRUE(test::same(crash.contents(), session.content()));
    }
}

// At every call that it makes of the operating system, in the midst of a write too.
TEST_P(Replay, that_is_killed_itself_gives_the_same_when_it_is_begun_again) {
    std::uint64_t kills = 0;
    for (const std::uint64_t seed :
         test::seeds("that_is_killed_itself_gives_the_same_when_it_is_begun_again", 1, {1, 2})) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Session session(GetParam(), seed);
        session.run();
        test::Crash crash = session.crash();
        EXPECT_FALSE(session.close());
        for (std::uint64_t nth = 1;; nth += test::kEachNth) {
            SCOPED_TRACE(testing::Message() << "killed at call " << nth);
            test::Crash again(crash);
            again.kill_at(nth, 100 * (nth % 3));
            (void)again.recover();
            if (!again.killed()) break;
            if (seed <= test::kFixedSeedMax) ++kills;
            again.live_again();
            const auto report = again.recover();
            ASSERT_TRUE(report) << report.status().message();
            ASSERT_TRUE(report.value().all_well());
            ASSERT_TRUE(test::same(again.contents(), session.committed()));
            ASSERT_EQ(again.left(), std::vector<std::string>{});
        }
    }
    EXPECT_GT(kills, 20u / test::kEachNth);
}

std::string name_of(const testing::TestParamInfo<Flavour>& flavour) { return flavour.param.name; }

const auto kWrites = testing::Values(Flavour{"nothing_drained", 1, false}, Flavour{"some_drained", 60, false});
const auto kTruncations = testing::Values(Flavour{"nothing_drained", 1, true}, Flavour{"some_drained", 60, true});

INSTANTIATE_TEST_SUITE_P(Writes, Replay, kWrites, name_of);
INSTANTIATE_TEST_SUITE_P(Truncations, Replay, kTruncations, name_of);
INSTANTIATE_TEST_SUITE_P(Writes, ReplayAfterClose, kWrites, name_of);

}   // namespace
}   // namespace forebay
