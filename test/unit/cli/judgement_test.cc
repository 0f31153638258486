// What `forebay torture` calls recovered, and what lost: a process that dies, its recovery, and files that are damaged
// after it.
#include "cli/torture/judgement.h"

#include <gtest/gtest.h>

#include <latch>

#include "support/crash.h"
#include "support/engine_fixture.h"

namespace forebay::cli {
namespace {

using test::same;
using Verdict = Judgement::Verdict;

// A target that takes nothing before the latch is open: nothing drains, so the log is copied while nobody changes it.
class ShutFile final : public io::File {
  public:
    ShutFile(std::unique_ptr<io::File> file, std::latch& open) : file_(std::move(file)), open_(open) {}
    const std::string& name() const noexcept override { return file_->name(); }
    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override { return file_->read_at(offset, into); }
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        open_.wait();
        return file_->write_at(offset, bytes);
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        open_.wait();
        return file_->write_gather_at(offset, pieces);
    }
    Result<std::uint64_t> size() override { return file_->size(); }
    Status resize(std::uint64_t size) override {
        open_.wait();
        return file_->resize(size);
    }
    Status allocate(std::uint64_t offset, std::uint64_t length) override { return file_->allocate(offset, length); }
    Status punch(std::uint64_t offset, std::uint64_t length) override { return file_->punch(offset, length); }
    Result<std::unique_ptr<io::Mapping>> map(std::uint64_t offset, std::size_t length) override { return file_->map(offset, length); }
    Status sync() override { return file_->sync(); }

  private:
    std::unique_ptr<io::File> file_;
    std::latch& open_;
};

// Follows the workload through an engine until so many commits have returned, and then for some operations more. What
// a death would leave now is recovered.
class Victim {
  public:
    Victim(std::uint64_t seed, std::uint64_t commits, int operations_later) {
        EXPECT_TRUE(target_.open()->write_at(0, Workload::initial(seed)));
        LoadedOptions loaded = load_options(Workload::connector_string(seed, "/nls"), [](const char*) -> const char* { return nullptr; });
        EXPECT_TRUE(loaded.problems.empty());
        const auto engine = stage::Engine::create(loaded, area_.opener());
        const auto file = engine->attach(std::make_unique<ShutFile>(target_.open(), open_), target_.identity(), "/scratch/run.h5", true).value().file;
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
        const Judgement judgement = judge(Oracle(seed), 4, victim.content);
        EXPECT_EQ(judgement.verdict, Verdict::kRecovered) << "seed " << seed << ": " << judgement.what;
        EXPECT_EQ(judgement.commit, 4U);
    }
}

TEST(Judgement, a_commit_that_could_not_be_told_of_counts) {
    const Victim victim(3, 5, 0);
    const Judgement judgement = judge(Oracle(3), 4, victim.content);
    EXPECT_EQ(judgement.verdict, Verdict::kRecovered) << judgement.what;
    EXPECT_EQ(judgement.commit, 5U);
}

TEST(Judgement, every_other_state_is_lost) {
    const Victim victim(3, 4, 5);
    EXPECT_EQ(judge(Oracle(3), 5, victim.content).verdict, Verdict::kLost) << "a commit that was told of is gone";
    EXPECT_EQ(judge(Oracle(3), 2, victim.content).verdict, Verdict::kLost) << "two commits cannot be under way";
    EXPECT_EQ(judge(Oracle(4), 4, victim.content).verdict, Verdict::kLost) << "of another seed";
}

TEST(Judgement, one_byte_that_changes_after_recovery_is_noticed_wherever_it_is) {
    Victim victim(7, 4, 5);
    ASSERT_GT(victim.content.size(), 4096U);
    for (std::size_t at = 0; at < victim.content.size(); at += 1 + victim.content.size() / 50) {
        victim.content[at] ^= std::byte{1};
        const Judgement judgement = judge(Oracle(7), 4, victim.content);
        EXPECT_EQ(judgement.verdict, Verdict::kLost) << "at " << at;
        EXPECT_NE(judgement.what.find("the first difference is at " + std::to_string(at)), std::string::npos) << judgement.what;
        victim.content[at] ^= std::byte{1};
    }
}

TEST(Judgement, a_wrong_size_is_noticed) {
    Victim victim(7, 4, 5);
    victim.content.pop_back();
    EXPECT_EQ(judge(Oracle(7), 4, victim.content).verdict, Verdict::kLost);
    victim.content.resize(victim.content.size() + 2);
    EXPECT_EQ(judge(Oracle(7), 4, victim.content).verdict, Verdict::kLost);
    EXPECT_EQ(judge(Oracle(7), 4, {}).verdict, Verdict::kLost);
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
}   // namespace forebay::cli
