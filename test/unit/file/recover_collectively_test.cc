// Members that look together at what dead processes have left: how often, and what the team makes of it.
#include <gtest/gtest.h>

#include <mutex>

#include "file/recover_collectively.h"
#include "support/thread_team.h"

namespace forebay::file {
namespace {

using test::ThreadTeam;

Status in_use() { return {Code::kUnavailable, "in use", 0, true}; }
Status unusable() { return {Code::kUnavailable, "nodes are missing"}; }

// What each member's look gives, one after the other; the last one again and again.
struct Played {
    std::vector<Result<std::string>> looks;
    std::size_t looked = 0;
    Looked outcome;
    Status status;
};

class RecoverCollectively : public testing::Test {
  protected:
    void run(std::vector<std::vector<Result<std::string>>> looks) {
        members_ = std::vector<Played>(looks.size());
        for (std::size_t i = 0; i < looks.size(); ++i) members_[i].looks = std::move(looks[i]);
        ThreadTeam::run(static_cast<int>(members_.size()), [&](std::shared_ptr<Team> team) {
            Played& mine = members_[static_cast<std::size_t>(team->rank())];
            auto looked = recover_collectively(*team, [&] {
                return mine.looks[std::min(mine.looked++, mine.looks.size() - 1)];
            });
            mine.status = looked.status();
            if (looked) mine.outcome = std::move(looked).value();
        });
        for (const Played& member : members_) EXPECT_TRUE(member.status) << member.status.message();
    }
    void expect_well() const {
        for (const Played& member : members_) EXPECT_TRUE(member.outcome.mine) << member.outcome.mine.message();
    }
    [[nodiscard]] std::vector<std::size_t> looked() const {
        std::vector<std::size_t> counts;
        for (const Played& member : members_) counts.push_back(member.looked);
        return counts;
    }
    [[nodiscard]] std::vector<std::string> said() const {
        std::vector<std::string> texts;
        for (const Played& member : members_) texts.push_back(member.outcome.say);
        return texts;
    }

    std::vector<Played> members_;
};

using Counts = std::vector<std::size_t>;
using Texts = std::vector<std::string>;

TEST_F(RecoverCollectively, is_one_look_each_where_nothing_is_left) {
    run({{std::string()}, {std::string()}, {std::string()}});
    expect_well();
    EXPECT_EQ(looked(), Counts({1, 1, 1}));
    EXPECT_EQ(said(), Texts({"", "", ""}));
}

TEST_F(RecoverCollectively, says_once_what_was_recovered) {
    run({{std::string()}, {std::string("one")}, {std::string("two")}});
    expect_well();
    EXPECT_EQ(looked(), Counts({1, 1, 1}));
    EXPECT_EQ(said(), Texts({"", "one", ""}));
}

TEST_F(RecoverCollectively, lets_each_take_its_turn_however_many_they_are) {
    std::vector<std::vector<Result<std::string>>> looks;
    Counts counts;
    for (std::size_t member = 0; member < 6; ++member) {
        std::vector<Result<std::string>> mine(member, in_use());
        mine.emplace_back(std::string("done"));
        looks.push_back(mine);
        counts.push_back(member + 1);
    }
    run(looks);
    expect_well();
    EXPECT_EQ(looked(), counts);
    EXPECT_EQ(said(), Texts({"done", "", "", "", "", ""}));
}

TEST_F(RecoverCollectively, looks_again_after_the_last_one_has_told) {
    run({{unusable(), std::string()}, {unusable(), std::string()}, {std::string("home")}});
    expect_well();
    EXPECT_EQ(looked(), Counts({2, 2, 1}));
    EXPECT_EQ(said(), Texts({"", "", "home"}));
}

// One had to wait for the last one's part, the last one for another process, which kept the file for a moment.
TEST_F(RecoverCollectively, looks_again_for_those_who_waited_while_another_was_kept_from_it) {
    run({{unusable(), unusable(), std::string()}, {in_use(), std::string("home")}});
    expect_well();
    EXPECT_EQ(looked(), Counts({3, 2}));
    run({{unusable(), unusable(), std::string()}, {in_use(), std::string()}});
    expect_well();
    EXPECT_EQ(looked(), Counts({3, 2})) << "also where there was nothing to be said of it";
}

TEST_F(RecoverCollectively, looks_again_where_the_last_one_had_nothing_to_say) {
    run({{unusable(), std::string()}, {std::string()}});
    expect_well();
    EXPECT_EQ(looked(), Counts({2, 1}));
}

TEST_F(RecoverCollectively, ends_where_it_does_not_help) {
    run({{unusable()}, {std::string("part")}, {std::string()}});
    EXPECT_EQ(looked(), Counts({3, 1, 1})) << "after the part, and once more";
    EXPECT_EQ(members_[0].outcome.mine.code(), Code::kUnavailable);
    EXPECT_FALSE(members_[0].outcome.first_to_fail) << "there was something else to say";
    EXPECT_EQ(said(), Texts({"", "part", ""}));

    run({{std::string()}, {in_use()}, {unusable()}});
    EXPECT_FALSE(members_[1].outcome.mine);
    EXPECT_FALSE(members_[2].outcome.mine) << "a failure stays one";
    EXPECT_TRUE(members_[1].outcome.first_to_fail);
    EXPECT_FALSE(members_[2].outcome.first_to_fail);

    run({{std::string("always")}, {in_use()}});
    EXPECT_EQ(looked(), Counts({1, 3})) << "whoever keeps it is not waited for";
}

}   // namespace
}   // namespace forebay::file
