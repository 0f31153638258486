// What `forebay torture` calls recovered, and what lost: a process that dies, its recovery, and files that are damaged
// after it.
#include "torture/judgement.h"
#include "support/seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/scripted_file.h"
#include "support/seeds.h"
#include "torture/fault_case.h"

namespace forebay::torture {
namespace {

using test::same;
using Verdict = Judgement::Verdict;

// Follows the workload through an engine until so many commits have returned, and then for some operations more. What
// a death would leave now is recovered.
class Victim {
  public:
    Victim(std::uint64_t seed, std::uint64_t commits, int operations_later) {
        EXPECT_TRUE(target_.open()->write_at(0, Workload::initial(seed)));
        LoadedOptions loaded = load_options(Workload::connector_string(seed, "/nls"),
                                            [](const char*) -> const char* { return nullptr; });
        EXPECT_TRUE(loaded.problems.empty());
        const auto engine = stage::Engine::create(loaded, area_.opener());
        // The target takes nothing before the latch is open: nothing drains, so the log is copied while nobody changes
        // it.
        const auto shut = [this](const test::FileCall& call) {
            if (call.operation == io::Operation::kWrite || call.operation == io::Operation::kResize) open_.wait();
            return Status::ok();
        };
        const auto file = engine->attach({test::scripted(target_.open(), shut), true}).value().file;
        EXPECT_TRUE(file->staged());
        Workload workload(seed);
        std::vector<std::byte> buffer;
        for (std::uint64_t done = 0; done < commits;) {
            const Operation operation = workload.next();
            EXPECT_TRUE(perform(*file, operation, buffer));
            done += operation.kind == Operation::Kind::kCommit;
        }
        for (int i = 0; i < operations_later; ++i) {
            const Operation operation = workload.next();
            if (operation.kind == Operation::Kind::kCommit) break;
            EXPECT_TRUE(perform(*file, operation, buffer));
        }
        EXPECT_GT(file->counters().staged, 0U);
        const auto area = area_.shared_open();
        content = test::recovered(*area, [&] { return target_.contents(); }, target_.identity());
        open_.count_down();
        EXPECT_TRUE(engine->detach(file, true));
    }
    std::vector<std::byte> content;

  private:
    test::Area area_;
    test::Target target_;
    std::latch open_{1};
};

TEST(Judgement, a_file_at_its_last_commit_is_recovered) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        const Victim victim(seed, 4, 9);
        const Judgement judgement = judge(seed, 4, victim.content);
        EXPECT_EQ(judgement.verdict, Verdict::kRecovered) << "seed " << seed << ": " << judgement.what;
        EXPECT_EQ(judgement.commit, 4U);
    }
}

TEST(Judgement, a_commit_that_could_not_be_told_of_counts) {
    const Victim victim(3, 5, 0);
    const Judgement judgement = judge(3, 4, victim.content);
    EXPECT_EQ(judgement.verdict, Verdict::kRecovered) << judgement.what;
    EXPECT_EQ(judgement.commit, 5U);
}

TEST(Judgement, every_other_state_has_gone_wrong) {
    const Victim victim(3, 4, 5);
    EXPECT_EQ(judge(3, 5, victim.content).verdict, Verdict::kLost) << "a commit that was told of is gone";
    EXPECT_NE(judge(3, 2, victim.content).verdict, Verdict::kRecovered) << "two commits cannot be under way";
    EXPECT_EQ(judge(4, 4, victim.content).verdict, Verdict::kWrong) << "of another seed";
}

TEST(Judgement, one_byte_that_changes_after_recovery_is_noticed_wherever_it_is) {
    Victim victim(7, 4, 5);
    ASSERT_GT(victim.content.size(), 4096U);
    for (std::size_t at = 0; at < victim.content.size(); at += test::kEachNth * (1 + victim.content.size() / 50)) {
        victim.content[at] ^= std::byte{1};
        const Judgement judgement = judge(7, 4, victim.content);
        EXPECT_NE(judgement.verdict, Verdict::kRecovered) << "at " << at;
        EXPECT_NE(judgement.what.find("the first difference is at " + std::to_string(at)), std::string::npos)
            << judgement.what;
        victim.content[at] ^= std::byte{1};
    }
}

TEST(Judgement, a_wrong_size_is_noticed) {
    Victim victim(7, 4, 5);
    victim.content.pop_back();
    EXPECT_EQ(judge(7, 4, victim.content).verdict, Verdict::kLost);
    victim.content.resize(victim.content.size() + 2);
    EXPECT_NE(judge(7, 4, victim.content).verdict, Verdict::kRecovered);
    EXPECT_EQ(judge(7, 4, {}).verdict, Verdict::kLost);
}

// The file after so many operations, commits among them.
std::vector<std::byte> after(std::uint64_t seed, std::uint64_t operations) {
    std::vector<std::byte> bytes = Workload::initial(seed);
    Workload workload(seed);
    for (std::uint64_t i = 0; i < operations; ++i) apply_operation(workload.next(), bytes);
    return bytes;
}
Operation operation_of(std::uint64_t seed, std::uint64_t number) {
    Workload workload(seed);
    for (std::uint64_t i = 0; i < number; ++i) (void)workload.next();
    return workload.next();
}
// The first one of this kind, from `from` on.
std::uint64_t first_of(std::uint64_t seed, Operation::Kind kind, std::uint64_t from) {
    while (operation_of(seed, from).kind != kind) ++from;
    return from;
}

TEST(Judgement, a_byte_of_an_earlier_time_is_lost_and_one_that_never_was_there_is_wrong) {
    constexpr std::uint64_t kSeed = 5, kOperations = 60;
    const auto now = after(kSeed, kOperations);
    const Told told{.closed = true, .closed_well = true};
    EXPECT_EQ(judge_closed(kSeed, kOperations, told, now).verdict, Verdict::kRecovered);
    const std::uint64_t number = first_of(kSeed, Operation::Kind::kWrite, kOperations - 8);
    const Operation last = operation_of(kSeed, number);
    const auto before = after(kSeed, number);
    auto content = now;
    for (std::uint64_t at = last.offset; at < last.offset + last.size && at < content.size(); ++at)
        content[at] = at < before.size() ? before[at] : std::byte{0};
    EXPECT_EQ(judge_closed(kSeed, kOperations, told, content).verdict, Verdict::kLost);
    content = now;
    std::fill(content.begin(), content.begin() + 64, std::byte{0xA5});
    EXPECT_EQ(judge_closed(kSeed, kOperations, told, content).verdict, Verdict::kWrong);
}

TEST(Judgement, of_an_operation_that_failed_any_part_may_be_there_and_no_more) {
    constexpr std::uint64_t kSeed = 6;
    const std::uint64_t number = first_of(kSeed, Operation::Kind::kWrite, 30);
    const Operation failed = operation_of(kSeed, number);
    const Told told{.failures = 2, .failed_operation = number, .closed = true};
    EXPECT_EQ(judge_closed(kSeed, 99, told, after(kSeed, number)).verdict, Verdict::kRecovered) << "none of it";
    auto content = after(kSeed, number + 1);
    EXPECT_EQ(judge_closed(kSeed, 99, told, content).verdict, Verdict::kRecovered) << "all of it";
    content[failed.offset + failed.size / 2] = ~content[failed.offset + failed.size / 2];
    EXPECT_EQ(judge_closed(kSeed, 99, told, content).verdict, Verdict::kRecovered) << "a part of it";
    content = after(kSeed, number + 1);
    const std::uint64_t beside = failed.offset > 0 ? failed.offset - 1 : failed.offset + failed.size;
    ASSERT_LT(beside, content.size());
    content[beside] = ~content[beside];
    EXPECT_NE(judge_closed(kSeed, 99, told, content).verdict, Verdict::kRecovered) << "a byte beside it";
}

TEST(Judgement, a_cut_that_failed_may_have_been_made) {
    constexpr std::uint64_t kSeed = 6;
    const std::uint64_t number = first_of(kSeed, Operation::Kind::kTruncate, 10);
    const Told told{.failures = 1, .failed_operation = number, .closed = true};
    for (const std::uint64_t operations : {number, number + 1})
        EXPECT_EQ(judge_closed(kSeed, 99, told, after(kSeed, operations)).verdict, Verdict::kRecovered);
    auto content = after(kSeed, number);
    content.resize(std::max(content.size(), after(kSeed, number + 1).size()) + 1);
    EXPECT_NE(judge_closed(kSeed, 99, told, content).verdict, Verdict::kRecovered);
}

TEST(Judgement, commits_that_failed_may_be_there_and_the_last_good_one_has_to) {
    constexpr std::uint64_t kSeed = 8;
    const auto at = [](std::uint64_t commits) { return Oracle(kSeed).after(commits); };
    const Told told{.commits = 5, .good_commits = 3, .failures = 2, .fault_met = true};
    for (const std::uint64_t commit : {3U, 4U, 5U, 6U})
        EXPECT_EQ(judge_killed(kSeed, told, false, at(commit)).commit, commit);
    EXPECT_EQ(judge_killed(kSeed, told, false, at(2)).verdict, Verdict::kLost);
    EXPECT_NE(judge_killed(kSeed, told, false, at(7)).verdict, Verdict::kRecovered);
}

TEST(Judgement, what_reached_the_file_early_is_no_loss_but_everything_else_is_compared) {
    constexpr std::uint64_t kSeed = 9;
    const std::uint64_t commit = first_of(kSeed, Operation::Kind::kCommit, 0);
    ASSERT_GT(first_of(kSeed, Operation::Kind::kCommit, commit + 1), commit + 4) << "another seed would do";
    const Told told{.commits = 1, .good_commits = 1};
    auto content = after(kSeed, commit + 4);
    ASSERT_NE(content, Oracle(kSeed).after(1));
    EXPECT_NE(judge_killed(kSeed, told, false, content).verdict, Verdict::kRecovered);
    EXPECT_EQ(judge_killed(kSeed, told, true, content).verdict, Verdict::kRecovered);
    std::vector<bool> touched(content.size());
    std::uint64_t size_min = content.size();
    for (std::uint64_t i = commit + 1; i <= first_of(kSeed, Operation::Kind::kCommit, commit + 1); ++i) {
        const Operation operation = operation_of(kSeed, i);
        if (operation.kind == Operation::Kind::kTruncate) size_min = std::min(size_min, operation.size);
        for (std::uint64_t byte = operation.offset; byte < operation.offset + operation.size && byte < touched.size() &&
                                                    operation.kind == Operation::Kind::kWrite;
             ++byte)
            touched[byte] = true;
    }
    touched.resize(std::min<std::uint64_t>(size_min, Oracle(kSeed).after(1).size()), true);
    const auto untouched = static_cast<std::size_t>(std::find(touched.begin(), touched.end(), false) - touched.begin());
    ASSERT_LT(untouched, touched.size());
    content[untouched] = ~content[untouched];
    EXPECT_NE(judge_killed(kSeed, told, true, content).verdict, Verdict::kRecovered);
}

TEST(Told, what_a_process_told_is_understood) {
    const Told told = understand("ccxcfxw17;e");
    EXPECT_EQ(told.commits, 5U);
    EXPECT_EQ(told.good_commits, 4U);
    EXPECT_EQ(told.failures, 4U);
    EXPECT_TRUE(told.fault_met && told.closed && !told.closed_well);
    EXPECT_EQ(told.failed_operation, 17U);
    EXPECT_TRUE(understand("co").closed_well);
    EXPECT_TRUE(understand("cg").given_up);
    EXPECT_FALSE(understand("").fault_met);
}

TEST(FaultCases, every_kind_comes_with_every_policy_and_what_the_user_sets_alone) {
    const auto all = fault_cases(true, true, {});
    EXPECT_EQ(all.size(), 6U * 3 * 2 * 2 + 3 * 2) << "six kinds with both durabilities, and syncs with one";
    for (const FaultCase& each : all)
        EXPECT_EQ(std::count_if(all.begin(), all.end(),
                                [&](const FaultCase& other) { return other.text() == each.text(); }),
                  1)
            << each.text();
    for (const FaultCase& each : fault_cases(false, false, {})) EXPECT_EQ(each.durability, Durability::kProcess);
    const std::vector<std::string> settings{"on_error=retry", "durability=node"};
    const auto some = fault_cases(false, true, settings);
    EXPECT_EQ(some.size(), 6U * 2);
    for (const FaultCase& each : some) EXPECT_EQ(each.settings(), settings);
}

TEST(Judgement, a_campaign_is_well_only_if_every_point_is_and_there_are_some) {
    Campaign campaign;
    EXPECT_FALSE(campaign.all_well()) << "nothing was tried";
    campaign.count({});
    EXPECT_TRUE(campaign.all_well());
    campaign.count({.verdict = Verdict::kHung, .what = "slow"});
    EXPECT_FALSE(campaign.all_well());
    EXPECT_EQ(campaign.points, 2U);
    EXPECT_EQ(campaign.recovered, 1U);
    EXPECT_EQ(campaign.hung, 1U);
    for (const Verdict verdict : {Verdict::kLost, Verdict::kWrong, Verdict::kUnreported})
        campaign.count({.verdict = verdict});
    EXPECT_EQ(campaign.lost, 1U);
    EXPECT_EQ(campaign.wrong, 1U);
    EXPECT_EQ(campaign.unreported, 1U);
    EXPECT_EQ(campaign.bad(), 4U);
    EXPECT_EQ(campaign.failures, std::vector<std::string>{"slow"});

    Campaign lost, skipped;
    lost.count({.verdict = Verdict::kLost, .what = "gone"});
    EXPECT_FALSE(lost.all_well());
    EXPECT_EQ(lost.lost, 1U);
    skipped.skipped = "there is no strace";
    EXPECT_TRUE(skipped.all_well());
    const Campaign only_skipped[] = {skipped};
    EXPECT_FALSE(all_well(only_skipped)) << "nothing was tried";
}

TEST(Judgement, every_workload_commits_writes_and_cuts) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Workload workload(seed);
        int counts[3] = {};
        for (int i = 0; i < 2000; ++i) ++counts[static_cast<int>(workload.next().kind)];
        for (const int count : counts) EXPECT_GT(count, 10) << "seed " << seed;
    }
}

}   // namespace
}   // namespace forebay::torture
