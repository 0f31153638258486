#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "support/engine_fixture.h"
#include "support/real_files.h"

namespace forebay {
namespace {

using stage::ByteClass;
using stage::Engine;
using test::Area;
using test::file_of;
using test::RealFiles;
using test::Target;

TEST_F(RealFiles, staging_leaves_the_right_bytes_in_the_target_and_nothing_in_the_area) {
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto attached = engine->attach({file_of(descriptor, root_ / "target.h5"), true});
    ASSERT_TRUE(attached) << attached.status().message();
    EXPECT_EQ(attached.value().warning, "");
    const auto bytes = test::bytes_of(300000, 1);
    ASSERT_TRUE(attached.value().file->write(10, bytes, ByteClass::kRaw));
    EXPECT_EQ(attached.value().file->counters().staged, 300000u);
    EXPECT_EQ(left_in_area().size(), 1u);
    ASSERT_TRUE(engine->detach(attached.value().file, true));
    ::close(descriptor);
    attached.value().file.reset();
    engine.reset();
    EXPECT_THAT(left_in_area(), testing::IsEmpty());
    EXPECT_EQ(std::filesystem::file_size(root_ / "target.h5"), 300010u);
}

// Another process may have noted the directory of an earlier one as that of a dead process, with the files in it.
TEST_F(RealFiles, no_engine_takes_the_directory_name_of_an_earlier_one) {
    std::set<std::string> names;
    for (int i = 0; i < 3; ++i) {
        auto engine = Engine::create(loaded_);
        const int descriptor = open_target();
        auto attached = engine->attach({file_of(descriptor, root_ / "target.h5"), true});
        ASSERT_TRUE(attached) << attached.status().message();
        ASSERT_EQ(left_in_area().size(), 1u);
        names.insert(left_in_area().front());
        ASSERT_TRUE(engine->detach(attached.value().file, true));
        ::close(descriptor);
    }
    EXPECT_EQ(names.size(), 3u);
}

TEST_F(RealFiles, an_unusable_staging_area_is_said_once_and_the_program_runs_on) {
    loaded_.options.nls = (root_ / "missing").string();
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto first = engine->attach({file_of(descriptor, root_ / "target.h5"), true});
    ASSERT_TRUE(first);
    EXPECT_THAT(first.value().warning, testing::HasSubstr("nls"));
    ASSERT_TRUE(first.value().file->write(0, test::bytes_of(100, 1), ByteClass::kRaw));
    EXPECT_EQ(first.value().file->counters().through, 100u);
    EXPECT_EQ(first.value().file->counters().staged, 0u);
    ASSERT_TRUE(engine->detach(first.value().file, true));
    auto second = engine->attach({file_of(descriptor, root_ / "target.h5"), true});
    ASSERT_TRUE(second);
    EXPECT_EQ(second.value().warning, "");
    ASSERT_TRUE(engine->detach(second.value().file, true));
    ::close(descriptor);
}

TEST_F(RealFiles, an_unusable_staging_area_fails_the_open_when_strict) {
    loaded_.options.nls = (root_ / "missing").string();
    loaded_.options.strict = true;
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto attached = engine->attach({file_of(descriptor, root_ / "target.h5"), true});
    ASSERT_FALSE(attached);
    EXPECT_THAT(attached.status().message(), testing::HasSubstr("missing"));
    ::close(descriptor);
}

TEST_F(RealFiles, strict_refuses_before_anything_is_created) {
    loaded_.options.nls = (root_ / "missing").string();
    loaded_.options.strict = true;
    EXPECT_FALSE(Engine::create(loaded_)->area().admit());
    loaded_.options.strict = false;
    EXPECT_TRUE(Engine::create(loaded_)->area().admit());
}

TEST_F(RealFiles, what_a_dead_process_left_without_an_open_file_is_removed_by_the_next) {
    for (const bool open_at_death : {false, true}) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            auto engine = Engine::create(loaded_);
            const int descriptor = open_target();
            auto file = engine->attach({file_of(descriptor, root_ / "target.h5"), true}).value().file;
            if (!file->write(0, test::bytes_of(100, 1), ByteClass::kMetadata)) ::_exit(1);
            if (!open_at_death && !engine->detach(file, true)) ::_exit(2);
            ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0);
        ASSERT_EQ(left_in_area().size(), 1u);
        auto engine = Engine::create(loaded_);
        const int descriptor = open_target();
        auto file = engine->attach({file_of(descriptor, root_ / "target.h5"), true}).value().file;
        EXPECT_EQ(left_in_area().size(), open_at_death ? 2u : 1u) << "a log that may hold something stays";
        ASSERT_TRUE(engine->detach(file, true));
        file.reset();
        ::close(descriptor);
    }
}

TEST_F(RealFiles, statistics_say_what_was_staged) {
    loaded_.options.stats = (root_ / "stats").string();
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto attached = engine->attach({file_of(descriptor, root_ / "target.h5"), true});
    ASSERT_TRUE(attached.value().file->write(0, test::bytes_of(100, 1), ByteClass::kRaw));
    ASSERT_TRUE(engine->detach(attached.value().file, true));
    ::close(descriptor);
    engine.reset();
    std::ifstream stats(root_ / "stats");
    std::string file_line, process_line;
    ASSERT_TRUE(std::getline(stats, file_line) && std::getline(stats, process_line));
    EXPECT_THAT(file_line, testing::HasSubstr(R"("staged":100)"));
    EXPECT_THAT(process_line, testing::HasSubstr(R"("files_staged":1)"));
}

// What a forked child sees and may do, reported through its exit status.
TEST_F(RealFiles, a_forked_child_reads_staged_bytes_but_neither_writes_nor_drains_them) {
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto file = engine->attach({file_of(descriptor, root_ / "target.h5"), true}).value().file;
    const auto bytes = test::bytes_of(5000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kMetadata));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        int wrong = 0;
        std::vector<std::byte> got(5000);
        if (!file->read(0, got) || got != bytes) wrong |= 1;
        if (file->write(0, bytes, ByteClass::kRaw)) wrong |= 2;
        if (file->truncate(1)) wrong |= 4;
        if (!file->commit()) wrong |= 8;
        if (!engine->detach(file, true)) wrong |= 16;
        engine.reset();
        ::_exit(wrong);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(std::filesystem::file_size(root_ / "target.h5"), 0u) << "the child drained";
    EXPECT_EQ(left_in_area().size(), 1u) << "the child removed the parent's log";
    EXPECT_EQ(test::read(*file, 0, 5000), bytes);
    ASSERT_TRUE(engine->detach(file, true));
    ::close(descriptor);
    EXPECT_EQ(std::filesystem::file_size(root_ / "target.h5"), 5000u);
}

// The child's view is a snapshot; the parent drains and uses the segments again meanwhile.
TEST_F(RealFiles, a_forked_child_reads_from_the_target_what_the_parent_has_drained_meanwhile) {
    loaded_.options.size = 2 * loaded_.options.segment;
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto file = engine->attach({file_of(descriptor, root_ / "target.h5"), true}).value().file;
    const auto bytes = test::bytes_of(5000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    int go[2];
    ASSERT_EQ(::pipe(go), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        char token;
        if (::read(go[0], &token, 1) != 1) ::_exit(2);
        std::vector<std::byte> got(5000);
        ::_exit(file->read(0, got) && got == bytes ? 0 : 1);
    }
    for (std::uint64_t i = 0; i < 40; ++i)
        ASSERT_TRUE(file->write(10000 + i * 20000, test::bytes_of(20000, i), ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    ASSERT_EQ(::write(go[1], "g", 1), 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    ASSERT_TRUE(engine->detach(file, true));
    for (const int end : {go[0], go[1], descriptor}) ::close(end);
}

TEST_F(RealFiles, two_engines_of_one_process_keep_apart) {
    auto first = Engine::create(loaded_), second = Engine::create(loaded_);
    const int descriptor = open_target();
    auto one = first->attach({file_of(descriptor, root_ / "target.h5"), true});
    const int other = ::open((root_ / "other.h5").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    auto two = second->attach({file_of(other, root_ / "other.h5"), true});
    ASSERT_TRUE(one && two);
    EXPECT_EQ(left_in_area().size(), 2u);
    ASSERT_TRUE(first->detach(one.value().file, true));
    ASSERT_TRUE(second->detach(two.value().file, true));
    ::close(descriptor);
    ::close(other);
}

TEST(EngineLedger, a_file_that_failed_goes_on_telling_what_is_left_when_it_is_opened_again) {
    Area area;
    Target target;
    auto plan = std::make_shared<io::FaultPlan>();
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target, true, plan);
    ASSERT_TRUE(file->write(0, test::bytes_of(100000, 1), ByteClass::kRaw));
    plan->fail(io::Operation::kWrite, 1, UINT64_MAX, EIO);
    ASSERT_FALSE(engine->detach(file, true));
    const auto left = file->counters();
    ASSERT_GT(left.pending, 0u);
    EXPECT_FALSE(engine->attach({target.open(), true}));
    const auto now = file->counters();
    EXPECT_EQ(now.path, left.path);
    EXPECT_EQ(now.opened_ns, left.opened_ns);
    EXPECT_EQ(now.staged, left.staged);
    EXPECT_EQ(now.pending, left.pending);
    EXPECT_EQ(now.error, static_cast<std::uint64_t>(EIO));
}

}   // namespace
}   // namespace forebay
