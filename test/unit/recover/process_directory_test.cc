// A process directory is judged in one place: whether its process lives, and which files are concerned if it cannot be
// used.
#include "recover/process_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/checksum.h"
#include "io/posix_file.h"
#include "support/leftover.h"
#include "support/stale_listing.h"

namespace forebay::recover {
namespace {

using State = ProcessDirectory::State;

class ProcessDirectoryTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string made = "/tmp/forebay_judge_XXXXXX";
        ASSERT_NE(::mkdtemp(made.data()), nullptr);
        path_ = made;
        area_ = std::move(io::open_posix_directory(path_)).value();
    }
    void TearDown() override {
        // What a test has taken away is needed for removing.
        std::error_code error;
        std::filesystem::permissions(directory(), std::filesystem::perms::owner_all, error);
        std::filesystem::remove_all(path_);
    }
    // A dead process with a log of a file, and a second file that it had opened and written nothing to.
    void leave() {
        test::LeftBehind dead(*area_, 1, area::identify_this_process().value().boot_id);
        auto& log = dead.open(kFile, "/scratch/run.h5", 0);
        dead.write(log, 0, test::bytes_of(1000, 1));
        dead.commit(log, 1000);
    }
    [[nodiscard]] std::string directory() const { return path_ + "/1-5-0"; }
    [[nodiscard]] ProcessDirectory judged(bool seen = false) const {
        return judge(*area_, "1-5-0", {1, 5, {}}, [seen](const area::ProcessIdentity&) { return seen; });
    }
    void overwrite(const char* file, std::uint64_t offset, std::size_t bytes) const {
        auto opened = std::move(
                          std::move(area_->open_directory("1-5-0")).value()->open_file(file, io::OpenMode::kReadWrite))
                          .value();
        ASSERT_TRUE(opened->write_at(offset, std::vector<std::byte>(bytes, std::byte{0xFF})));
    }

    // With the checksum that goes with it, as another forebay would have written it.
    void set_version(std::uint32_t version) const {
        auto opened = std::move(
                          std::move(area_->open_directory("1-5-0")).value()->open_file("log", io::OpenMode::kReadWrite))
                          .value();
        std::array<std::byte, log::kUseOffset> front;
        ASSERT_TRUE(opened->read_at(0, front));
        std::memcpy(front.data() + 8, &version, sizeof version);
        const std::uint64_t sum = checksum(front);
        ASSERT_TRUE(opened->write_at(0, front));
        ASSERT_TRUE(opened->write_at(log::kUseOffset, std::as_bytes(std::span(&sum, 1))));
    }

    static constexpr io::Identity kFile{7, 1};
    std::string path_;
    std::unique_ptr<io::Directory> area_;
};

TEST_F(ProcessDirectoryTest, of_a_dead_process_names_the_files_of_its_log) {
    leave();
    const ProcessDirectory found = judged();
    EXPECT_EQ(found.state, State::kDead);
    EXPECT_TRUE(found.unread) << found.unread.message();
    EXPECT_THAT(found.files, testing::ElementsAre(testing::Pair(kFile, testing::Field(&ProcessDirectory::File::path,
                                                                                      "/scratch/run.h5"))));
    EXPECT_FALSE(found.may_be_any);
    EXPECT_EQ(found.path, directory());
}

TEST_F(ProcessDirectoryTest, is_that_of_a_living_one_as_long_as_its_lock_is_held_and_no_longer) {
    leave();
    {
        const auto lock = std::move(area_->open_directory("1-5-0")).value()->hold(std::string(area::kAliveFile));
        ASSERT_TRUE(lock);
        EXPECT_EQ(judged(false).state, State::kLiving);
    }
    EXPECT_EQ(judged(true).state, State::kDead) << "a process of its number and start is seen: that tells nothing";
}

TEST_F(ProcessDirectoryTest, without_a_lock_is_that_of_a_process_that_is_seen) {
    leave();
    EXPECT_EQ(judged(true).state, State::kLiving);
    EXPECT_EQ(judge(*area_, "2-5-0", {2, 5, {}}).state, State::kGone);
}

TEST_F(ProcessDirectoryTest, that_cannot_be_used_still_names_its_files_whatever_the_reason) {
    struct Case {
        const char* what;
        std::function<void()> spoil;
        Code code;
    };
    const Case cases[] = {
        {"others may write to it", [&] { ::chmod(directory().c_str(), 0770); }, Code::kPermissionDenied},
        {"others may write to its log", [&] { ::chmod((directory() + "/log").c_str(), 0666); },
         Code::kPermissionDenied},
        {"its log is of another version", [&] { set_version(1); }, Code::kUnsupported},
        {"its log has no segment header any more", [&] { overwrite("log", 0, 4096); }, Code::kCorrupt},
        {"its log has no open record any more",
         [&] { overwrite("log", log::kSegmentHeaderBytes, log::kRecordHeaderBytes); }, Code::kCorrupt},
    };
    for (const Case& one : cases) {
        leave();
        one.spoil();
        const ProcessDirectory found = judged();
        EXPECT_EQ(found.state, State::kDead) << one.what;
        EXPECT_EQ(found.unread.code(), one.code) << one.what << ": " << found.unread.message();
        EXPECT_THAT(found.files, testing::ElementsAre(testing::Pair(kFile, testing::Field(&ProcessDirectory::File::path,
                                                                                          "/scratch/run.h5"))))
            << one.what;
        EXPECT_FALSE(found.may_be_any) << one.what;
        EXPECT_THAT(found.advice(), testing::HasSubstr("forebay discard " + directory())) << one.what;
        std::filesystem::remove_all(directory());
    }
}

TEST_F(ProcessDirectoryTest, whose_log_and_ledger_tell_nothing_may_be_about_any_file) {
    leave();
    set_version(99);
    overwrite("ledger", 0, 8);
    const ProcessDirectory found = judged();
    EXPECT_EQ(found.unread.code(), Code::kUnsupported);
    EXPECT_TRUE(found.may_be_any);
    EXPECT_TRUE(found.files.empty());
}

TEST_F(ProcessDirectoryTest, that_may_not_be_entered_may_be_about_any_file) {
    if (::geteuid() == 0) GTEST_SKIP() << "root may enter everything";
    leave();
    ASSERT_EQ(::chmod(directory().c_str(), 0), 0);
    EXPECT_EQ(judged().state, State::kDead);
    EXPECT_TRUE(judged().may_be_any);
    EXPECT_EQ(judged().unread.code(), Code::kPermissionDenied);
}

TEST_F(ProcessDirectoryTest, that_is_a_symbolic_link_is_not_followed) {
    leave();
    std::filesystem::rename(directory(), path_ + "/elsewhere");
    std::filesystem::create_symlink("elsewhere", directory());
    const ProcessDirectory found = judged();
    EXPECT_EQ(found.state, State::kDead);
    EXPECT_EQ(found.unread.code(), Code::kPermissionDenied);
    EXPECT_TRUE(found.files.empty());
    std::filesystem::remove(directory());
}

TEST_F(ProcessDirectoryTest, whose_journal_was_just_removed_by_a_recovery_is_readable) {
    leave();
    test::StaleArea seen(*area_, {"undo-5"});
    const ProcessDirectory found = judge(seen, "1-5-0", {1, 5, {}}, [](const area::ProcessIdentity&) { return false; });
    EXPECT_TRUE(found.unread) << found.unread.message();
    EXPECT_EQ(found.files.size(), 1u);
}

TEST_F(ProcessDirectoryTest, that_is_just_being_made_holds_nothing) {
    ASSERT_TRUE(area_->create_directory("1-5-0"));
    const ProcessDirectory found = judged();
    EXPECT_TRUE(found.unread);
    EXPECT_TRUE(found.files.empty());
    EXPECT_FALSE(found.may_be_any);
}

}   // namespace
}   // namespace forebay::recover
