// A staging device that fails below the logs of several participants: nobody reads wrong bytes, nothing is lost unsaid,
// and nobody waits for ever.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

#include "support/faults.h"
#include "support/losing_mount.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::bytes_of;
using test::Participants;
using test::same;

constexpr std::size_t kCount = 3;
constexpr std::uint64_t kSegment = 16 << 10, kBytes = 50000;

LoadedOptions options() {
    LoadedOptions loaded = test::small_options();
    loaded.options.segment = kSegment;
    loaded.options.size = 256 << 10;
    return loaded;
}

// Reads what everybody has written: right, or an error that names a log.
void expect_right_or_told(const Participants& node, const test::PlainBytes& now) {
    for (std::size_t reader = 0; reader < kCount; ++reader) {
        for (std::uint64_t at = 0; at < now.content.size(); at += 4096) {
            std::vector<std::byte> bytes(std::min<std::uint64_t>(4096, now.content.size() - at));
            const Status read = node.file(reader).read(at, bytes);
            if (read) {
                EXPECT_TRUE(same(bytes, now.read(at, bytes.size()))) << "reader " << reader << ", offset " << at;
            } else {
                EXPECT_NE(read.message().find("/log"), std::string::npos) << read.message();
            }
        }
    }
}

struct Cut {
    std::size_t whose;
    Durability durability;
};
class CutLog : public testing::TestWithParam<Cut> {};

// A log that was cut stands for a device that is gone: pages beyond the cut cannot be had. The others have followed
// nothing of it yet, or all.
TEST_P(CutLog, of_one_participant_is_told_to_all_and_what_can_be_had_is_right) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    const std::size_t whose = GetParam().whose;
    LoadedOptions loaded = options();
    loaded.options.durability = GetParam().durability;
    std::uint64_t told_runs = 0;
    for (std::uint64_t cut = 0; cut < kBytes + kSegment; cut += 4096) {
        for (const bool followed : {false, true}) {
            SCOPED_TRACE(testing::Message() << "cut to " << cut << (followed ? ", followed before" : ""));
            // A real file: the system says EFAULT where a log cannot be read.
            const test::Scratch home;
            Participants node(kCount, loaded, nullptr, {}, false,
                              {{}, [&](std::unique_ptr<io::File>) {
                                   return std::move(std::move(io::open_posix_directory(
                                                                  std::filesystem::path(home.target()).parent_path()))
                                                        .value()
                                                        ->open_file("run.h5", io::OpenMode::kReadWrite))
                                       .value();
                               }});
            test::PlainBytes now;
            for (std::size_t who = 0; who < kCount; ++who) {
                const auto bytes = bytes_of(kBytes, who);
                for (std::uint64_t at = 0; at < kBytes; at += 5000)
                    ASSERT_TRUE(node.write(who, who * kBytes + at, io::Bytes(bytes).subspan(at, 5000),
                                           at == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
                now.write(who * kBytes, bytes);
            }
            for (std::size_t reader = 0; followed && reader < kCount; ++reader)
                ASSERT_TRUE(same(node.read(reader, 0, now.content.size()), now.content));
            io::Directory& area = *node.engine(whose).area().directory();
            ASSERT_TRUE(area.open_file("log", io::OpenMode::kReadWrite).value()->resize(cut));
            expect_right_or_told(node, now);
            bool told = false;
            for (std::size_t who = 0; who < kCount; ++who) {
                const auto bytes = bytes_of(3000, 10 + who);
                const Status written = node.write(who, who * 4000, bytes);
                if (written) now.write(who * 4000, bytes);
                else told = true;
            }
            if (!told) expect_right_or_told(node, now);
            const Status committed = node.commit(), drained = committed ? node.drain() : committed,
                         closed = node.close();
            told = told || !committed || !drained || !closed;
            if (!told) {
                EXPECT_TRUE(same(home.contents(), now.content));
            }
            told_runs += told ? 1 : 0;
        }
    }
    EXPECT_GT(told_runs, 20u);
}

INSTANTIATE_TEST_SUITE_P(Whose, CutLog,
                         testing::Values(Cut{0, Durability::kProcess}, Cut{1, Durability::kProcess},
                                         Cut{2, Durability::kProcess}, Cut{0, Durability::kNode},
                                         Cut{1, Durability::kNode}, Cut{2, Durability::kNode}),
                         [](const auto& given) {
                             return "participant_" + std::to_string(given.param.whose) +
                                    (given.param.durability == Durability::kNode ? "_node" : "_process");
                         });

// A log that was cut and grown again has another generation. The drainer has released no segment, so nothing is used
// again: it keeps its own records, which are in no log that it follows.
TEST(ChangedLog, of_another_participant_never_makes_the_drainer_forget_its_own_bytes) {
    for (const bool written_after : {false, true}) {
        SCOPED_TRACE(written_after);
        Participants node(kCount, options());
        test::PlainBytes now;
        for (std::size_t who = 0; who < kCount; ++who) {
            const auto bytes = bytes_of(5000, who);
            ASSERT_TRUE(node.write(who, who * kBytes, bytes));
            now.write(who * kBytes, bytes);
        }
        ASSERT_TRUE(same(node.read(0, 0, now.content.size()), now.content)) << "the drainer follows the others";
        io::Directory& area = *node.engine(1).area().directory();
        const std::array<std::byte, 8> changed{std::byte{0x77}};
        ASSERT_TRUE(area.open_file("log", io::OpenMode::kReadWrite).value()->write_at(log::kGenerationOffset, changed));
        if (written_after) (void)node.write(1, kBytes, bytes_of(100, 9));
        std::vector<std::byte> own(5000);
        const Status read = node.file(0).read(0, own);
        if (read) {
            EXPECT_TRUE(same(own, now.read(0, own.size())));
        } else {
            EXPECT_NE(read.message().find("/log"), std::string::npos) << read.message();
        }
        EXPECT_FALSE(node.commit());
        EXPECT_FALSE(node.close());
        EXPECT_FALSE(node.scratch().logs().empty()) << "the logs stay for recovery";
    }
}

// The device takes the bytes of one rank's log, and fails to write them back later. The drainer finds zeros there.
class LosingLog : public testing::TestWithParam<int> {};

TEST_P(LosingLog, of_one_rank_fails_each_later_flush_and_the_close_on_all) {
    const test::LosingMount device("ext4");
    if (!device.why_not().empty()) GTEST_SKIP() << device.why_not();
    const test::Scratch scratch;
    const std::string area = (device.path() / "area").string();
    std::filesystem::create_directory(area);
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 32 << 20;
    std::atomic<int> failed_closes{0};
    test::ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
        const bool loses = team->rank() == GetParam();
        test::TeamMember member(team, scratch,
                                stage::Engine::create(loaded, [&area] { return io::open_posix_directory(area); }));
        ASSERT_TRUE(member.opened()) << member.opened().message();
        ASSERT_TRUE(member.write(5000 * static_cast<std::uint64_t>(team->rank()), bytes_of(5000, 1)));
        ASSERT_TRUE(member.file().commit());
        if (loses) {
            ASSERT_TRUE(device.begin_losing());
            ASSERT_TRUE(member.write(1 << 20, bytes_of(4 << 20, 2), ByteClass::kMetadata)) << "the device takes it";
            const std::filesystem::path own = member.engine().area().directory()->name();
            ASSERT_TRUE(device.forget(own / "log"));
        }
        ASSERT_TRUE(member.file().meet());
        for (int i = 0; i < 2; ++i) EXPECT_EQ(member.file().commit().sys_errno(), EIO) << "rank " << team->rank();
        failed_closes += member.close() ? 0 : 1;
    });
    EXPECT_EQ(failed_closes, 2);
}

INSTANTIATE_TEST_SUITE_P(Whose, LosingLog, testing::Values(0, 1),
                         [](const auto& given) { return "rank_" + std::to_string(given.param); });

}   // namespace
}   // namespace forebay
