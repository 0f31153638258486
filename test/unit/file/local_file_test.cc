// A file of one process: whichever way its open ends, the engine forgets its handle once.
#include "file/local_file.h"

#include <gtest/gtest.h>

#include "support/team_files.h"

namespace forebay {
namespace {

using file::FileReadByRanks;
using file::LocalFile;
using stage::ByteClass;
using test::bytes_of;
using test::same;
using test::Scratch;

class LocalFileTest : public testing::Test {
  protected:
    stage::OpenTarget target(bool writable) const {
        const int descriptor = ::open(scratch.target().c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
        EXPECT_GE(descriptor, 0);
        return {io::adopt_posix_file(descriptor, scratch.target()), writable};
    }
    template <class File>
    std::shared_ptr<File> open(bool writable) const {
        auto opened = std::make_shared<File>(engine);
        const auto attached = opened->attach(target(writable));
        EXPECT_TRUE(attached) << attached.status().message();
        return opened;
    }
    bool known() const { return engine->files().find(io::identify(scratch.target()).value()) != nullptr; }

    const std::vector<std::byte> content = bytes_of(5000, 1);
    const Scratch scratch{content};
    const std::shared_ptr<stage::Engine> engine = stage::Engine::create(test::small_options(), scratch.opener());
};

TEST_F(LocalFileTest, an_open_of_ranks_that_fails_after_the_attach_leaves_no_handle) {
    auto file = open<FileReadByRanks>(false);
    EXPECT_TRUE(known());
    file.reset();   // as after the failure of another rank
    EXPECT_FALSE(known());
}

TEST_F(LocalFileTest, a_close_ends_one_handle_and_the_end_of_the_object_no_other) {
    auto first = open<LocalFile>(false), second = open<LocalFile>(false);
    EXPECT_TRUE(first->close({}).outcome);
    first.reset();
    ASSERT_TRUE(known());
    std::vector<std::byte> found(content.size());
    const file::ProgramFile::ReadPart part{0, found};
    EXPECT_TRUE(second->read({&part, 1}));
    EXPECT_TRUE(same(found, content));
    EXPECT_TRUE(second->close({}).outcome);
    EXPECT_FALSE(known());
}

TEST_F(LocalFileTest, a_file_that_was_not_attached_ends_no_handle_of_another) {
    auto file = open<LocalFile>(false);
    {
        const LocalFile never(engine);
    }
    EXPECT_TRUE(known());
    EXPECT_TRUE(file->close({}).outcome);
    EXPECT_FALSE(known());
}

TEST_F(LocalFileTest, written_bytes_reach_the_target_of_an_object_that_was_not_closed) {
    auto file = open<LocalFile>(true);
    const auto bytes = bytes_of(content.size(), 2);
    const file::ProgramFile::Part part{0, bytes};
    ASSERT_TRUE(file->write({&part, 1}, ByteClass::kRaw));
    EXPECT_TRUE(file->staged().staged());
    file.reset();
    EXPECT_FALSE(known());
    EXPECT_TRUE(same(scratch.contents(), bytes));
}

}   // namespace
}   // namespace forebay
