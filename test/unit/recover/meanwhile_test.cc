// Recovery while other processes die, or recover other files of the same directories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "support/recovery_fixture.h"
#include "support/stale_listing.h"

namespace forebay::recover {
namespace {

using test::BorrowedDirectory;
using test::bytes_of;
using test::Crash;
using test::LeftBehind;
using test::RecoveryTest;
using test::same;
using test::StaleArea;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Request for_files(std::initializer_list<std::uint64_t> inodes) {
    Request request;
    request.only.emplace();
    for (const std::uint64_t inode : inodes) request.only->push_back({{7, inode}, "/scratch/run.h5"});
    return request;
}

// The other recovery works on another file, so its lock does not keep this one from listing the directory.
TEST_F(RecoveryTest, finds_a_log_beside_a_board_and_a_journal_that_another_recovery_has_just_removed) {
    for (const bool unasked : {false, true}) {
        area_ = io::make_memory_directory("/nls/forebay");
        committed();
        Crash after = crash();
        StaleArea seen(after.area(), {"board-2", "undo-5"});
        io::Directory* const areas[] = {&seen};
        Request request = for_files({1});
        request.unasked = unasked;
        const auto report = recover(areas, request, after.outside());
        ASSERT_TRUE(report) << report.status().message();
        ASSERT_EQ(report.value().files.size(), 1u);
        EXPECT_EQ(report.value().files.front().outcome, Outcome::kRecovered)
            << report.value().files.front().status.message();
        EXPECT_TRUE(report.value().all_well());
        EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
        EXPECT_THAT(after.left(), IsEmpty());
    }
}

TEST_F(RecoveryTest, reports_a_directory_that_is_there_although_a_part_of_it_is_not_found) {
    committed();
    Crash after = crash();
    StaleArea seen(after.area(), [](const std::vector<std::string>&) {
        return Result<std::vector<std::string>>(Status::from_errno(ENOENT, "list"));
    });
    io::Directory* const areas[] = {&seen};
    const auto report = recover(areas, for_files({1}), after.outside());
    ASSERT_TRUE(report) << report.status().message();
    ASSERT_EQ(report.value().refused.size(), 1u);
    EXPECT_THAT(report.value().refused.front().path, HasSubstr("100-5-0"));
    EXPECT_FALSE(report.value().all_well());
    EXPECT_THAT(after.left(), testing::ElementsAre("100-5-0"));
}

// Hides the directory of one process until that has died.
class LateArea final : public BorrowedDirectory {
  public:
    LateArea(io::Directory& area, const bool& died) : BorrowedDirectory(area), died_(died) {}
    Result<std::vector<std::string>> list() override {
        auto names = BorrowedDirectory::list();
        if (names && !died_) std::erase(names.value(), "101-5-0");
        return names;
    }

  private:
    const bool& died_;
};

TEST_F(RecoveryTest, of_named_files_tells_of_a_process_that_comes_and_dies_meanwhile_if_it_left_their_logs) {
    committed();
    LeftBehind& later = process(101);
    auto& log = later.open({7, 2}, "/scratch/other.h5", 0);
    later.write(log, 0, bytes_of(100, 2));
    later.commit(log, 100);
    for (const bool both : {true, false}) {
        Crash after = crash();
        bool died = false;
        after.seen_as = [&](io::ExistingFile file) {
            died = true;
            return file;
        };
        LateArea seen(after.area(), died);
        io::Directory* const areas[] = {&seen};
        const auto report = recover(areas, both ? for_files({1, 2}) : for_files({1}), after.outside());
        ASSERT_TRUE(report) << report.status().message();
        ASSERT_EQ(report.value().files.size(), 1u);
        EXPECT_EQ(report.value().files.front().outcome, Outcome::kRecovered);
        EXPECT_EQ(report.value().all_well(), !both);
        ASSERT_EQ(report.value().refused.size(), both ? 1u : 0u);
        for (const DirectoryReport& directory : report.value().refused)
            EXPECT_THAT(directory.status.message(), HasSubstr("run the command again"));
    }
}

}   // namespace
}   // namespace forebay::recover
