// Notes of the last writers of files.
#include "area/last_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/posix_file.h"
#include "support/forwarding_directory.h"
#include "support/scratch_folder.h"

namespace forebay::area {
namespace {

class LastWriter : public testing::Test {
  protected:
    LastWriter() : area_(io::open_posix_directory(folder_).value()) {}
    ~LastWriter() override { std::filesystem::remove_all(folder_); }
    std::unique_ptr<io::File> note() {
        return area_->open_directory(kWritersFolder).value()->open_file("a-b", io::OpenMode::kReadWrite).value();
    }

    const std::string folder_ = test::make_scratch_folder();
    const std::unique_ptr<io::Directory> area_;
    const io::Identity file_{10, 11};
};

TEST_F(LastWriter, is_the_one_that_was_noted_last) {
    EXPECT_EQ(last_writer(*area_, file_).value(), 0u);
    for (const bool durable : {false, true, false}) {
        for (const std::uint64_t writer : {5, 6}) {
            ASSERT_TRUE(note_writer(*area_, file_, writer, durable));
            EXPECT_EQ(last_writer(*area_, file_).value(), writer);
        }
        ASSERT_TRUE(note_writer(*area_, {10, 12}, 7, durable));
    }
    const auto noted = noted_writers(*area_);
    ASSERT_TRUE(noted);
    ASSERT_EQ(noted.value().size(), 2u);
    EXPECT_EQ(noted.value()[0].file, file_);
    EXPECT_EQ(noted.value()[0].writer, 6u);
    ASSERT_TRUE(forget_writer(*area_, file_, 5));
    EXPECT_EQ(last_writer(*area_, file_).value(), 6u);
    ASSERT_TRUE(forget_writer(*area_, file_, 6));
    EXPECT_EQ(last_writer(*area_, file_).value(), 0u);
    EXPECT_EQ(last_writer(*area_, {10, 12}).value(), 7u);
}

TEST_F(LastWriter, is_unknown_after_a_restart_of_the_machine_unless_the_note_was_on_the_device) {
    ASSERT_TRUE(note_writer(*area_, file_, 5, false));
    std::array<std::byte, 24> bytes{};
    ASSERT_EQ(note()->read_at(0, bytes).value(), bytes.size());
    bytes[20] ^= std::byte{1};   // of the boot
    ASSERT_TRUE(note()->write_at(0, bytes));
    EXPECT_EQ(last_writer(*area_, file_).value(), 0u);
    ASSERT_TRUE(note_writer(*area_, file_, 5, true));
    ASSERT_EQ(note()->read_at(0, bytes).value(), bytes.size());
    EXPECT_THAT(std::vector(bytes.begin() + 8, bytes.end()), testing::Each(std::byte{0}));
    EXPECT_EQ(last_writer(*area_, file_).value(), 5u);
}

TEST_F(LastWriter, is_unknown_once_all_notes_of_the_file_are_removed) {
    EXPECT_TRUE(forget_any_writer(*area_, file_));
    for (const bool durable : {false, true}) {
        ASSERT_TRUE(note_writer(*area_, file_, 5, durable) && note_writer(*area_, {10, 12}, 7, durable));
        EXPECT_TRUE(forget_any_writer(*area_, file_));
        EXPECT_EQ(last_writer(*area_, file_).value(), 0u);
        EXPECT_EQ(last_writer(*area_, {10, 12}).value(), 7u);
        EXPECT_TRUE(forget_any_writer(*area_, file_));
    }
}

// Counts the syncs of the folder of notes.
class CountingArea final : public test::BorrowedDirectory {
  public:
    using BorrowedDirectory::BorrowedDirectory;
    Result<std::unique_ptr<io::Directory>> open_directory(const std::string& name) override {
        auto opened = BorrowedDirectory::open_directory(name);
        if (!opened) return opened;
        return std::unique_ptr<io::Directory>(std::make_unique<Folder>(std::move(opened).value(), syncs));
    }
    int syncs = 0;

  private:
    class Folder final : public test::ForwardingDirectory {
      public:
        Folder(std::unique_ptr<io::Directory> directory, int& syncs)
            : ForwardingDirectory(std::move(directory)), syncs_(syncs) {}
        Status sync() override {
            ++syncs_;
            return ForwardingDirectory::sync();
        }

      private:
        int& syncs_;
    };
};

TEST_F(LastWriter, stays_unknown_after_a_loss_of_power_once_its_durable_note_is_removed) {
    for (const bool any : {false, true})
        for (const bool durable : {false, true}) {
            ASSERT_TRUE(note_writer(*area_, file_, 5, durable));
            CountingArea area(*area_);
            ASSERT_TRUE(any ? forget_any_writer(area, file_) : forget_writer(area, file_, 5));
            EXPECT_EQ(last_writer(*area_, file_).value(), 0u);
            EXPECT_EQ(area.syncs, any || durable ? 1 : 0);
        }
}

TEST_F(LastWriter, is_unknown_if_its_note_was_cut_short) {
    ASSERT_TRUE(note_writer(*area_, file_, 5, false));
    ASSERT_TRUE(note()->resize(20));
    EXPECT_EQ(last_writer(*area_, file_).value(), 0u);
}

}   // namespace
}   // namespace forebay::area
