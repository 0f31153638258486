// Recoveries beside each other: of one file one at a time, of several files all at once, also if one of them hangs in
// its target.
#include "recover/file_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <set>
#include <span>
#include <thread>

#include "io/fault_file.h"
#include "recover/claim.h"
#include "support/forwarding_directory.h"
#include "support/recovery_fixture.h"

namespace forebay::recover {
namespace {

using io::Directory;
using test::bytes_of;
using test::LeftBehind;
using test::same;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr io::Identity kOne{7, 1}, kOther{7, 2};

// One process has died that had two files open.
class BesideEachOther : public test::RecoveryTest {
  protected:
    BesideEachOther() {
        LeftBehind& dead = process();
        for (const io::Identity& identity : {kOne, kOther}) {
            const std::string path = name(identity);
            auto& log = dead.open(identity, path, 0);
            dead.write(log, 0, bytes_of(1000, identity.inode));
            dead.commit(log, 1000);
            EXPECT_TRUE(targets_->open_file(path.substr(1), io::OpenMode::kCreateNew));
            plans_[path] = std::make_shared<io::FaultPlan>();
        }
    }
    static std::string name(const io::Identity& identity) { return "/" + std::to_string(identity.inode) + ".h5"; }
    Result<Report> recover(std::optional<io::Identity> only, Directory::Patience patience = Directory::Patience::kTry) {
        Outside outside{[](const area::ProcessIdentity&) { return false; }, boot_id_,
                        [this](const std::string& path) -> Result<io::ExistingFile> {
                            auto file = targets_->open_file(path.substr(1), io::OpenMode::kReadWrite);
                            if (!file) return file.status();
                            return io::ExistingFile{io::make_fault_file(std::move(file).value(), plans_.at(path)),
                                                    {7, static_cast<std::uint64_t>(path[1] - '0')},
                                                    0};
                        }};
        Request request;
        if (only) request.only = {Wanted{*only, name(*only)}};
        request.patience = patience;
        Directory* const areas[] = {area_.get()};
        return recover::recover(areas, request, outside);
    }
    std::vector<std::byte> content(const io::Identity& identity) {
        auto file = std::move(targets_->open_file(name(identity).substr(1), io::OpenMode::kRead)).value();
        std::vector<std::byte> bytes(file->size().value());
        EXPECT_TRUE(file->read_at(0, bytes));
        return bytes;
    }
    std::vector<std::string> left() { return std::move(area_->list()).value(); }

    std::unique_ptr<Directory> targets_ = io::make_memory_directory("/targets");
    std::map<std::string, std::shared_ptr<io::FaultPlan>> plans_;
};

// Recovery frees the room that its own lock would take.
TEST_F(BesideEachOther, a_full_staging_device_does_not_hinder_recovery_and_still_one_works_at_a_time) {
    for (const int error : {ENOSPC, EDQUOT}) {
        for (const io::Operation operation : {io::Operation::kCreateDirectory, io::Operation::kOpen}) {
            const auto plan = std::make_shared<io::FaultPlan>();
            auto claimed = [&](Directory& area) {
                Directory* const areas[] = {&area};
                return claim(
                    areas, {kOne}, [](const Inventory&) { return std::set<io::Identity>(); }, Directory::Patience::kTry,
                    false, [](const area::ProcessIdentity&) { return false; }, {});
            };
            const auto full = io::make_fault_directory(std::make_unique<test::BorrowedDirectory>(*area_), plan);
            // Of the opens the second one names the holder.
            if (operation == io::Operation::kOpen) plan->fail(operation, 2, 1, error);
            else plan->fail(operation, 1, UINT64_MAX - 1, error);
            {
                const auto held = claimed(*full);
                ASSERT_TRUE(held) << held.status().message();
                EXPECT_TRUE(held.value().busy.empty());
                EXPECT_EQ(held.value().inventory.sessions.size(), 2u);
                plan->clear();
                const auto second = claimed(*area_);
                EXPECT_TRUE(!second || second.value().busy.contains(kOne)) << "two work on one file";
                EXPECT_TRUE(second || second.status().code() == Code::kUnavailable) << second.status().message();
            }
            const auto other = claimed(*area_);
            ASSERT_TRUE(other);
            EXPECT_TRUE(other.value().busy.empty());
        }
    }
    EXPECT_TRUE(recover(std::nullopt).value().all_well());
}

// One recovery knows one area only. The other one has the full area as its first.
TEST_F(BesideEachOther, a_full_area_does_not_hide_who_holds_the_file_in_another_one) {
    const auto first = io::make_memory_directory("/nls/a full one");
    const auto plan = std::make_shared<io::FaultPlan>();
    plan->fail(io::Operation::kCreateDirectory, 1, UINT64_MAX - 1, ENOSPC);
    const auto full = io::make_fault_directory(std::make_unique<test::BorrowedDirectory>(*first), plan);
    Directory* const one[] = {area_.get()};
    Directory* const both[] = {full.get(), area_.get()};
    ASSERT_LT(full->name(), area_->name()) << "areas are locked by name";
    const auto claimed = [](std::span<Directory* const> areas) {
        return claim(
            areas, {kOne}, [](const Inventory&) { return std::set<io::Identity>(); }, Directory::Patience::kTry, false,
            [](const area::ProcessIdentity&) { return false; }, {});
    };
    for (const bool full_first : {false, true}) {
        SCOPED_TRACE(full_first);
        const auto held = full_first ? claimed(both) : claimed(one);
        ASSERT_TRUE(held) << held.status().message();
        EXPECT_TRUE(held.value().busy.empty());
        const auto second = full_first ? claimed(one) : claimed(both);
        EXPECT_TRUE(!second || second.value().busy.contains(kOne)) << "two work on one file";
        EXPECT_TRUE(second || second.status().code() == Code::kUnavailable) << second.status().message();
    }
    const auto later = claimed(both);
    ASSERT_TRUE(later) << later.status().message();
    EXPECT_TRUE(later.value().busy.empty());
}

TEST_F(BesideEachOther, one_that_hangs_keeps_no_other_file_of_the_same_process) {
    const auto& plan = plans_.at(name(kOne));
    plan->hang(io::Operation::kWrite);
    Result<Report> stuck = Report{};
    std::jthread first([&] { stuck = recover(kOne); });
    ASSERT_TRUE(plan->await_hanging());

    const auto other = recover(kOther);
    ASSERT_TRUE(other) << other.status().message();
    ASSERT_EQ(other.value().files.size(), 1u);
    EXPECT_EQ(other.value().files.front().outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(content(kOther), bytes_of(1000, 2)));

    for (const auto patience : {Directory::Patience::kTry, Directory::Patience{std::chrono::milliseconds(30)}}) {
        const auto same_file = recover(kOne, patience);
        ASSERT_TRUE(same_file) << same_file.status().message();
        ASSERT_EQ(same_file.value().files.size(), 1u);
        EXPECT_EQ(same_file.value().files.front().reason, Reason::kInUse);
        EXPECT_THAT(same_file.value().files.front().status.message(),
                    HasSubstr("process " + std::to_string(::getpid()) + " is recovering it"));
    }
    const auto all = recover(std::nullopt);
    ASSERT_TRUE(all);
    ASSERT_EQ(all.value().files.size(), 1u) << "the other one is recovered already";
    EXPECT_EQ(all.value().files.front().reason, Reason::kInUse);
    EXPECT_THAT(content(kOne), IsEmpty());

    plan->let_go();
    first.join();
    ASSERT_TRUE(stuck) << stuck.status().message();
    EXPECT_EQ(stuck.value().files.front().outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(content(kOne), bytes_of(1000, 1)));
    EXPECT_THAT(left(), IsEmpty());
}

TEST_F(BesideEachOther, whoever_waits_finds_that_it_was_done) {
    const auto& plan = plans_.at(name(kOne));
    plan->hang(io::Operation::kWrite);
    Result<Report> first_report = Report{}, second_report = Report{};
    std::jthread first([&] { first_report = recover(kOne); });
    ASSERT_TRUE(plan->await_hanging());
    std::jthread second([&] { second_report = recover(kOne, Directory::Patience{std::chrono::minutes(1)}); });
    plan->let_go();
    first.join();
    second.join();
    ASSERT_TRUE(first_report);
    ASSERT_TRUE(second_report) << second_report.status().message();
    EXPECT_EQ(first_report.value().files.front().outcome, Outcome::kRecovered);
    EXPECT_THAT(second_report.value().files, IsEmpty());
    EXPECT_TRUE(same(content(kOne), bytes_of(1000, 1)));
}

TEST_F(BesideEachOther, a_file_that_somebody_recovers_is_not_discarded) {
    Directory* const areas[] = {area_.get()};
    const auto held = FileLock::take(areas, kOne, Directory::Patience::kTry);
    ASSERT_TRUE(held);
    Discarded request;
    request.files = {Wanted{kOne, name(kOne)}, Wanted{kOther, name(kOther)}};
    const auto report = discard(areas, request,
                                Outside{[](const area::ProcessIdentity&) { return false; }, boot_id_, {}});
    ASSERT_TRUE(report) << report.status().message();
    ASSERT_EQ(report.value().files.size(), 2u);
    EXPECT_EQ(report.value().files[0].reason, Reason::kInUse);
    EXPECT_EQ(report.value().files[1].outcome, Outcome::kDiscarded);
}

TEST_F(BesideEachOther, a_lock_whose_holder_was_killed_is_had_and_removed) {
    for (const io::Identity& identity : {kOne, io::Identity{9, 9}}) {
        auto dead = std::move(area_->create_directory(FileLock::name(identity))).value();
        ASSERT_TRUE(dead->open_file("by-4711", io::OpenMode::kCreateNew));
    }
    const auto report = recover(std::nullopt);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report.value().all_well());
    EXPECT_THAT(left(), IsEmpty());
}

TEST_F(BesideEachOther, a_dry_run_locks_nothing) {
    Directory* const areas[] = {area_.get()};
    const auto before = left();
    Request request;
    request.dry_run = true;
    const auto report = recover::recover(areas, request,
                                         Outside{[](const area::ProcessIdentity&) { return false; }, boot_id_,
                                                 [](const std::string& path) -> Result<io::ExistingFile> {
                                                     return Status(Code::kNotFound, path);
                                                 }});
    ASSERT_TRUE(report);
    EXPECT_EQ(left(), before);
}

TEST(FileLockTest, many_take_turns) {
    const auto area = io::make_memory_directory("/nls/forebay");
    int inside = 0, turns = 0;
    {
        std::vector<std::jthread> all;
        for (int i = 0; i < 4; ++i)
            all.emplace_back([&] {
                Directory* const areas[] = {area.get()};
                for (int turn = 0; turn < 100; ++turn) {
                    const auto lock = FileLock::take(areas, kOne, Directory::Patience::kWait);
                    ASSERT_TRUE(lock) << lock.status().message();
                    EXPECT_EQ(++inside, 1);
                    ++turns;
                    --inside;
                }
            });
    }
    EXPECT_EQ(turns, 400);
    EXPECT_THAT(area->list().value(), IsEmpty());
}

}   // namespace
}   // namespace forebay::recover
