// Recovery beside others: living processes, other recoveries, other runs, and several logs of one file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "support/forwarding_directory.h"
#include "support/recovery_fixture.h"
#include "support/timed_target.h"

namespace forebay::recover {
namespace {

using test::bytes_of;
using test::Crash;
using test::joined;
using test::LeftBehind;
using test::RecoveryTest;
using test::same;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- others ------------------------------------------------------------------------------------------

TEST_F(RecoveryTest, leaves_the_living_alone_and_whatever_they_have_open) {
    committed(100);
    LeftBehind& living = process(101);
    (void)living.open(1, 0);
    Crash after = crash();
    after.alive = [](const area::ProcessIdentity& who) { return who.pid == 101; };
    expect_refusal(after, Reason::kInUse);
    EXPECT_EQ(after.recover().value().living.size(), 1u);
}

TEST_F(RecoveryTest, does_not_work_beside_another_one) {
    committed();
    Crash after = crash();
    {
        const auto other = after.area().lock(io::Directory::Patience::kTry);
        ASSERT_TRUE(other);
        const auto report = after.recover();
        EXPECT_EQ(report.status().code(), Code::kUnavailable);
        EXPECT_THAT(report.status().message(), HasSubstr("another recovery is at work"));
        EXPECT_TRUE(report.status().retryable());
    }
    (void)after.recovered();
}

// Its locks, and those of the directories in it, fail for lack of a resource, once `spared` have succeeded.
class LocksFail : public test::ForwardingDirectory {
  public:
    LocksFail(std::unique_ptr<io::Directory> directory, std::shared_ptr<int> spared, int sys_errno)
        : ForwardingDirectory(std::move(directory)), spared_(std::move(spared)), errno_(sys_errno) {}
    Result<std::unique_ptr<io::Directory>> open_directory(const std::string& name) override {
        return failing(ForwardingDirectory::open_directory(name));
    }
    Result<std::unique_ptr<io::Directory>> create_directory(const std::string& name) override {
        return failing(ForwardingDirectory::create_directory(name));
    }
    Result<std::unique_ptr<io::Lock>> lock(Patience patience) override {
        if ((*spared_)-- > 0) return ForwardingDirectory::lock(patience);
        return Status::from_errno(errno_, "lock");
    }

  private:
    Result<std::unique_ptr<io::Directory>> failing(Result<std::unique_ptr<io::Directory>> directory) const {
        if (!directory) return directory;
        return std::unique_ptr<io::Directory>(std::make_unique<LocksFail>(std::move(directory).value(), spared_,
                                                                          errno_));
    }
    const std::shared_ptr<int> spared_;
    const int errno_;
};

TEST_F(RecoveryTest, blames_no_other_recovery_for_a_lock_that_it_has_no_memory_for) {
    committed();
    for (const int sys_errno : {ENOMEM, EMFILE, ENFILE})
        for (const int spared : {0, 1}) {   // first it looks into the area, then it locks the file
            Crash after = crash();
            LocksFail area(std::make_unique<test::BorrowedDirectory>(after.area()), std::make_shared<int>(spared),
                           sys_errno);
            io::Directory* const areas[] = {&area};
            const auto report = recover(areas, {}, after.outside());
            ASSERT_FALSE(report) << spared;
            EXPECT_EQ(report.status().sys_errno(), sys_errno);
            EXPECT_THAT(report.status().message(), Not(HasSubstr("another")));
            EXPECT_THAT(report.status().message(), Not(HasSubstr("recovering")));
        }
}

TEST_F(RecoveryTest, does_not_guess_which_of_two_runs_was_right) {
    for (const std::uint64_t pid : {100, 101}) {
        LeftBehind& dead = process(pid);
        auto& log = dead.open(1, 0);
        dead.write(log, 0, bytes_of(100, pid));
        dead.commit(log, 100);
    }
    Crash after = crash();
    const auto report = after.recover();
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 2u);
    for (const FileReport& file : report.value().files) EXPECT_EQ(file.reason, Reason::kSeveralRuns);
    EXPECT_THAT(after.contents(), IsEmpty());

    Discarded request;
    request.directories = {"/nls/forebay/100-5-0"};
    io::Directory* const areas[] = {&after.area()};
    const auto discarded = discard(areas, request, after.outside());
    ASSERT_TRUE(discarded) << discarded.status().message();
    ASSERT_EQ(discarded.value().files.size(), 1u);
    EXPECT_EQ(discarded.value().files.front().outcome, Outcome::kDiscarded);
    EXPECT_EQ(discarded.value().files.front().dropped_bytes, 100u);
    EXPECT_THAT(after.left(), ElementsAre("101-5-0"));
    (void)after.recovered();
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 101)));
}

TEST_F(RecoveryTest, discards_what_is_asked_for_by_the_path_of_a_file_that_is_gone) {
    auto [dead, log] = committed();
    Crash after = crash(bytes_of(10, 2));
    Discarded request;
    request.paths = {"/scratch/other.h5"};
    io::Directory* const areas[] = {&after.area()};
    EXPECT_THAT(discard(areas, request, after.outside()).value().files, IsEmpty());
    request.paths = {"/scratch/run.h5"};
    request.dry_run = true;
    EXPECT_EQ(discard(areas, request, after.outside()).value().files.size(), 1u);
    EXPECT_THAT(after.left(), ElementsAre(dead.name));
    request.dry_run = false;
    EXPECT_EQ(discard(areas, request, after.outside()).value().files.size(), 1u);
    EXPECT_THAT(after.left(), IsEmpty());
    EXPECT_TRUE(same(after.contents(), bytes_of(10, 2)));
}

// ---- several logs of one file ------------------------------------------------------------------------

class SharedRecoveryTest : public RecoveryTest {
  protected:
    // The first one drains. Both have written; the first one has committed.
    void write_together(const log::Frontier& frontier = {0, 0},
                        log::Sharing::Kind kind = log::Sharing::Kind::kOneNode) {
        first_ = &process(100);
        second_ = &process(101);
        const log::Sharing sharing{kind, 77};
        first_log_ = &first_->open(1, 0, sharing);
        second_log_ = &second_->open(1, 0, sharing);
        first_->board(77, {first_->process, second_->process}, frontier);
        second_->write(*second_log_, 0, bytes_of(100, 1));
        first_->write(*first_log_, 50, bytes_of(100, 2));
        last_ = second_->write(*second_log_, 120, bytes_of(50, 3));
        first_->commit(*first_log_, 170);
        second_->write(*second_log_, 0, bytes_of(300, 4));
    }
    static std::vector<std::byte> together() {
        auto one = bytes_of(100, 1), two = bytes_of(100, 2);
        one.resize(50);
        two.resize(70);
        return joined({one, two, bytes_of(50, 3)});
    }
    static void remove(Crash& crash, const std::string& directory) {
        const auto gone = std::move(crash.area().open_directory(directory)).value();
        const auto files = gone->list();
        for (const std::string& file : files.value()) ASSERT_TRUE(gone->remove_file(file));
        ASSERT_TRUE(crash.area().remove_directory(directory));
    }
    LeftBehind *first_ = nullptr, *second_ = nullptr;
    log::FileLog *first_log_ = nullptr, *second_log_ = nullptr;
    std::uint64_t last_ = 0;
};

TEST_F(SharedRecoveryTest, replays_all_logs_in_the_order_of_their_numbers) {
    write_together();
    Crash after = crash();
    const FileReport file = after.recovered();
    EXPECT_TRUE(same(after.contents(), together()));
    EXPECT_THAT(file.processes, ElementsAre(100, 101));
    EXPECT_EQ(file.dropped_bytes, 300u);
}

TEST_F(SharedRecoveryTest, killed_at_any_call_gives_the_same_when_it_is_begun_again) {
    write_together();
    Crash before = crash();
    std::uint64_t nth = 1;
    for (;; ++nth) {
        SCOPED_TRACE(testing::Message() << "killed at call " << nth);
        Crash after(before);
        after.kill_at(nth, 10);
        (void)after.recover();
        if (!after.killed()) break;
        after.live_again();
        const auto report = after.recover();
        ASSERT_TRUE(report) << report.status().message();
        ASSERT_TRUE(report.value().all_well());
        ASSERT_TRUE(same(after.contents(), together()));
        ASSERT_THAT(after.left(), IsEmpty());
    }
    EXPECT_GT(nth, 30u);
}

TEST_F(SharedRecoveryTest, leaves_out_what_is_behind_the_frontier) {
    write_together({log::Frontier::kNothing - 1, 0});
    Crash after = crash(bytes_of(200, 5));
    (void)after.recovered();
    auto expected = bytes_of(200, 5);
    expected.resize(170);
    EXPECT_TRUE(same(after.contents(), expected)) << "the target has it all";
}

TEST_F(SharedRecoveryTest, waits_until_all_who_wrote_have_ended) {
    write_together();
    Crash after = crash();
    after.alive = [](const area::ProcessIdentity& who) { return who.pid == 101; };
    expect_refusal(after, Reason::kInUse);
}

TEST_F(SharedRecoveryTest, needs_the_logs_of_all) {
    write_together();
    Crash after = crash();
    remove(after, "101-5-0");
    expect_refusal(after, Reason::kIncomplete);
}

// A process that dies while it waits for room may leave a segment that the drainer has released.
TEST_F(SharedRecoveryTest, needs_the_log_of_each_who_wrote_also_if_there_are_as_many) {
    LeftBehind &first = process(100), &second = process(101), &third = process(102);
    const log::Sharing sharing{log::Sharing::Kind::kOneNode, 77};
    auto& drained = first.open(1, 0, sharing);
    auto& followed = second.open(1, 0, sharing);
    (void)third.open(1, 0, sharing);
    first.board(77, {first.process, second.process, third.process});
    second.write(followed, 0, bytes_of(100, 1));
    first.write(drained, 100, bytes_of(100, 2));
    first.commit(drained, 200);
    Crash after = crash();
    const std::uint64_t released = 1;
    const std::uint64_t row = sizeof(group::BoardHeader) + 2 * sizeof(group::BoardRow);
    ASSERT_TRUE(after.file(group::board_name(1), first.name)
                    ->write_at(row + offsetof(group::BoardRow, released), std::as_bytes(std::span(&released, 1))));
    Crash whole(after);
    (void)whole.recovered();
    EXPECT_TRUE(same(whole.contents(), joined({bytes_of(100, 1), bytes_of(100, 2)})));
    Crash without_released(after);
    remove(without_released, third.name);
    (void)without_released.recovered();
    remove(after, second.name);
    expect_refusal(after, Reason::kIncomplete);
}

TEST_F(SharedRecoveryTest, needs_the_board) {
    write_together();
    Crash after = crash();
    ASSERT_TRUE(after.area().open_directory("100-5-0").value()->remove_file(group::board_name(1)));
    expect_refusal(after, Reason::kIncomplete);
}

TEST_F(SharedRecoveryTest, is_needless_once_the_one_who_drains_has_finished) {
    write_together({log::Frontier::kNothing, log::Frontier::kNothing});
    first_log_->segments().release_all();
    Crash after = crash(bytes_of(170, 5));
    EXPECT_EQ(after.recovered().outcome, Outcome::kComplete);
    EXPECT_TRUE(same(after.contents(), bytes_of(170, 5)));
}

// It may have bytes of other logs still to drain.
TEST_F(SharedRecoveryTest, drops_no_log_because_the_one_who_drains_has_none) {
    write_together();
    first_log_->segments().release_all();
    Crash after = crash(bytes_of(170, 5));
    expect_refusal(after, Reason::kIncomplete);
}

TEST_F(SharedRecoveryTest, of_several_nodes_brings_home_what_this_one_had_staged_and_sets_no_size) {
    write_together({0, 0}, log::Sharing::Kind::kSeveralNodes);
    Crash after = crash(bytes_of(1000, 5));
    const FileReport file = after.recovered();
    auto expected = bytes_of(1000, 5);
    const auto newest = bytes_of(300, 4);
    std::copy(newest.begin(), newest.end(), expected.begin());
    EXPECT_TRUE(same(after.contents(), expected));
    EXPECT_EQ(file.outcome, Outcome::kRecovered);
    EXPECT_EQ(file.size, 1000u);
    EXPECT_EQ(file.dropped_bytes, 0u);
}

// Each node has one process here, which drains.
class NodesRecoveryTest : public RecoveryTest {
  protected:
    void write_on_nodes(std::uint64_t team_of_second = 5) {
        const std::uint64_t teams[] = {5, team_of_second};
        for (std::uint64_t node = 0; node < 2; ++node) {
            LeftBehind& one = process(100 + node);
            auto& log = one.open(1, 0, {log::Sharing::Kind::kSeveralNodes, 70 + node});
            one.board(70 + node, {one.process}, {0, 0}, teams[node], 2);
            one.write(log, 1000 * node, bytes_of(100, node));
        }
    }
    static std::vector<std::byte> expected() {
        auto bytes = bytes_of(2000, 5);
        for (std::uint64_t node = 0; node < 2; ++node) {
            const auto part = bytes_of(100, node);
            std::copy(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(1000 * node));
        }
        return bytes;
    }
};

TEST_F(NodesRecoveryTest, whose_logs_lie_in_one_staging_area_all_bring_home_what_they_had_staged) {
    write_on_nodes();
    Crash after = crash(bytes_of(2000, 5));
    const auto report = after.recover();
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 2u);
    for (const FileReport& file : report.value().files) {
        EXPECT_EQ(file.outcome, Outcome::kRecovered) << file.status.message();
        EXPECT_EQ(file.nodes, 2u);
        EXPECT_EQ(file.nodes_here, 2u);
        EXPECT_EQ(about_nodes(file), "");
    }
    EXPECT_TRUE(same(after.contents(), expected()));
    EXPECT_THAT(after.left(), IsEmpty());
}

TEST_F(NodesRecoveryTest, look_unchanged_to_the_other_nodes_after_each_write) {
    write_on_nodes();
    Crash after = crash(bytes_of(2000, 5));
    test::TimedTarget target;
    target.state->modified_ns = 12345;
    after.seen_as = [&](io::ExistingFile file) { return target.seen(std::move(file)); };
    const auto report = after.recover();
    ASSERT_TRUE(report);
    std::uint64_t writes = 0;
    for (const FileReport& file : report.value().files) writes += file.writes;
    EXPECT_EQ(writes, 2u);
    EXPECT_EQ(target.set_back, 2u);
    EXPECT_EQ(target.state->modified_ns, 12345u);
}

TEST_F(NodesRecoveryTest, of_two_runs_are_several_runs) {
    write_on_nodes(6);
    Crash after = crash(bytes_of(2000, 5));
    const auto report = after.recover();
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 2u);
    for (const FileReport& file : report.value().files) EXPECT_EQ(file.reason, Reason::kSeveralRuns);
    EXPECT_TRUE(same(after.contents(), bytes_of(2000, 5)));
}

TEST_F(NodesRecoveryTest, tell_that_another_node_has_to_recover_too) {
    write_on_nodes();
    for (const std::uint64_t other : {0, 1}) {
        Crash after = crash(bytes_of(2000, 5));
        const std::string name = after.left().at(other);
        auto gone = std::move(after.area().open_directory(name)).value();
        const std::vector<std::string> files = std::move(gone->list()).value();
        for (const std::string& file : files) ASSERT_TRUE(gone->remove_file(file));
        ASSERT_TRUE(after.area().remove_directory(name));
        const FileReport file = after.recovered();
        EXPECT_EQ(file.nodes, 2u);
        EXPECT_EQ(file.nodes_here, 1u);
        EXPECT_NE(advice(file).find("the logs of 1 are not here"), std::string::npos) << advice(file);
        auto half = bytes_of(2000, 5);
        const auto part = bytes_of(100, 1 - other);
        std::copy(part.begin(), part.end(), half.begin() + static_cast<std::ptrdiff_t>(1000 * (1 - other)));
        EXPECT_TRUE(same(after.contents(), half));
    }
}

TEST_F(NodesRecoveryTest, killed_at_any_call_give_the_same_when_it_is_begun_again) {
    write_on_nodes();
    Crash before = crash(bytes_of(2000, 5));
    std::uint64_t nth = 1;
    for (;; ++nth) {
        SCOPED_TRACE(testing::Message() << "killed at call " << nth);
        Crash after(before);
        after.kill_at(nth, 10);
        (void)after.recover();
        if (!after.killed()) break;
        after.live_again();
        const auto report = after.recover();
        ASSERT_TRUE(report) << report.status().message();
        ASSERT_TRUE(report.value().all_well());
        ASSERT_TRUE(same(after.contents(), expected()));
        ASSERT_THAT(after.left(), IsEmpty());
    }
    EXPECT_GT(nth, 30u);
}

}   // namespace
}   // namespace forebay::recover
