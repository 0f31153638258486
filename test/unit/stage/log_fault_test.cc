// The staging device fails under the mapping of the log: real files, a real engine, and a log that is cut while it is
// in use.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "io/posix_file.h"
#include "support/engine_fixture.h"
#include "support/faults.h"
#include "support/loop_mount.h"
#include "support/losing_mount.h"

namespace forebay {
namespace {

using stage::ByteClass;
using Content = std::vector<std::byte>;
constexpr std::uint64_t kSegment = 64 << 10;

// A staging area and targets on a real file system.
class LogFault : public testing::Test {
  protected:
    void SetUp() override { FOREBAY_SKIP_WITHOUT_FAULTS(); }
    LogFault() {
        char name[] = "/tmp/forebay-log-fault-XXXXXX";
        root_ = ::mkdtemp(name);
        std::filesystem::create_directory(root_ / "area");
    }
    ~LogFault() override {
        engine_.reset();
        std::filesystem::remove_all(root_);
    }

    void start(const LoadedOptions& options = test::small_options()) {
        engine_ = stage::Engine::create(options,
                                        [this] { return io::open_posix_directory((root_ / "area").string()); });
    }
    std::shared_ptr<stage::StagedFile> open(const std::string& name) {
        const std::string path = (root_ / name).string();
        const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
        auto attached = engine_->attach({io::adopt_posix_file(descriptor, path), true});
        EXPECT_TRUE(attached) << attached.status().message();
        EXPECT_TRUE(attached.value().file->staged());
        return attached.value().file;
    }
    // The log loses all but its first bytes.
    void cut_log(std::uint64_t bytes) { ASSERT_EQ(::truncate(log_path().c_str(), static_cast<off_t>(bytes)), 0); }
    std::string log_path() const {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ / "area"))
            if (entry.path().filename() == "log") return entry.path().string();
        return {};
    }
    Content contents(const std::string& name) const {
        std::ifstream in(root_ / name, std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(in)), {});
        Content bytes(text.size());
        std::memcpy(bytes.data(), text.data(), text.size());
        return bytes;
    }
    static Content joined(std::initializer_list<Content> parts) {
        Content all;
        for (const Content& part : parts) all.insert(all.end(), part.begin(), part.end());
        return all;
    }
    // EIO, by the log's name and an offset in it.
    void expect_names_the_log(const Status& status) {
        EXPECT_EQ(status.sys_errno(), EIO) << status.message();
        EXPECT_NE(status.message().find(log_path()), std::string::npos) << status.message();
        EXPECT_NE(status.message().find("offset"), std::string::npos) << status.message();
    }

    std::filesystem::path root_;
    std::unique_ptr<stage::Engine> engine_;
};

TEST_F(LogFault, what_can_no_longer_be_stored_goes_to_the_target_and_nothing_is_lost) {
    start();
    const auto file = open("a.h5");
    const Content first = test::bytes_of(3 * kSegment / 2, 1), second = test::bytes_of(100'000, 2),
                  third = test::bytes_of(5'000, 3);
    ASSERT_TRUE(file->write(0, first, ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    ASSERT_EQ(file->counters().drained, first.size());
    cut_log(0);
    ASSERT_TRUE(file->write(first.size(), second, ByteClass::kRaw));
    EXPECT_TRUE(test::same(test::read(*file, 0, first.size() + second.size()), joined({first, second})));
    ASSERT_TRUE(file->write(first.size() + second.size(), third, ByteClass::kMetadata));
    ASSERT_TRUE(file->commit());
    EXPECT_FALSE(file->staged());
    EXPECT_NE(file->counters().aside & (1u << static_cast<unsigned>(ledger::AsideReason::kStagingArea)), 0u);
    EXPECT_EQ(file->counters().through, second.size() + third.size());
    ASSERT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(test::same(contents("a.h5"), joined({first, second, third})));
}

TEST_F(LogFault, what_cannot_be_read_back_fails_loudly_and_the_rest_is_drained) {
    start();
    const auto other = open("other.h5"), file = open("a.h5");
    const Content theirs = test::bytes_of(10'000, 7), ours = test::bytes_of(5 * kSegment / 2, 1);
    ASSERT_TRUE(other->write(0, theirs, ByteClass::kMetadata));   // the first segment
    ASSERT_TRUE(file->write(0, ours, ByteClass::kMetadata));      // the next three
    ASSERT_TRUE(test::same(test::read(*file, 0, ours.size()), ours));
    cut_log(2 * kSegment + 8192);
    Content into(ours.size());
    expect_names_the_log(file->read(0, into));
    Content front(kSegment / 2);
    ASSERT_TRUE(file->read(0, front));
    EXPECT_TRUE(test::same(front, Content(ours.begin(), ours.begin() + kSegment / 2)));
    (void)file->commit();   // its record could not be stored: all is drained
    expect_names_the_log(file->commit());
    const Status drained = file->drain();
    expect_names_the_log(drained);

    // Later writes go straight to the target, and supersede what was lost.
    const Content later = test::bytes_of(5000, 9);
    ASSERT_TRUE(file->write(ours.size(), later, ByteClass::kRaw));
    EXPECT_TRUE(test::same(test::read(*file, ours.size(), later.size()), later));
    const Status closed = engine_->detach(file, true);
    expect_names_the_log(closed);
    EXPECT_NE(closed.message().find("stay in the staging log"), std::string::npos) << closed.message();

    // Whole pages of the log are there up to the cut: their bytes are at home.
    const Content home = contents("a.h5");
    ASSERT_EQ(home.size(), ours.size() + later.size());
    std::uint64_t intact = 0;
    while (intact < ours.size() && home[intact] == ours[intact]) ++intact;
    EXPECT_GT(intact, kSegment);
    EXPECT_LT(intact, 2 * kSegment);
    EXPECT_TRUE(test::same(Content(home.end() - 5000, home.end()), later));

    ASSERT_TRUE(other->commit());
    EXPECT_TRUE(test::same(test::read(*other, 0, theirs.size()), theirs));
    ASSERT_TRUE(engine_->detach(other, true));
    EXPECT_TRUE(test::same(contents("other.h5"), theirs));
}

TEST_F(LogFault, what_was_lost_and_is_written_again_is_no_loss) {
    start();
    const auto file = open("a.h5");
    const Content old = test::bytes_of(20'000, 1), again = test::bytes_of(20'000, 2);
    ASSERT_TRUE(file->write(0, old, ByteClass::kMetadata));
    cut_log(0);
    Content into(old.size());
    ASSERT_FALSE(file->read(0, into));
    (void)file->write(0, again, ByteClass::kMetadata);
    ASSERT_TRUE(file->write(0, again, ByteClass::kMetadata));
    EXPECT_TRUE(test::same(test::read(*file, 0, again.size()), again));
    // The read that failed was told; all bytes have reached the target since.
    EXPECT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(test::same(contents("a.h5"), again));
}

// Many small pieces are put together in memory before they are written.
TEST_F(LogFault, small_pieces_that_can_be_read_are_drained) {
    start();
    const auto file = open("a.h5");
    const Content all = test::bytes_of(512 * 300, 1);
    for (std::size_t i = 0; i < 300; ++i)
        ASSERT_TRUE(file->write(i * 512, io::Bytes(all).subspan(i * 512, 512), ByteClass::kMetadata));
    cut_log(kSegment);
    expect_names_the_log([&] {
        (void)file->commit();
        return file->commit();
    }());
    expect_names_the_log(engine_->detach(file, true));
    const Content home = contents("a.h5");
    std::uint64_t intact = 0;
    while (intact < home.size() && home[intact] == all[intact]) ++intact;
    EXPECT_GT(intact, kSegment / 2);
}

TEST_F(LogFault, truncations_take_effect_when_they_cannot_be_recorded) {
    start();
    const auto file = open("a.h5");
    const Content bytes = test::bytes_of(50'000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(file->commit());
    ASSERT_TRUE(file->drain());
    cut_log(0);
    ASSERT_TRUE(file->truncate(10'000));
    EXPECT_EQ(file->size(), 10'000u);
    ASSERT_TRUE(file->truncate(20'000));
    Content expected(bytes.begin(), bytes.begin() + 10'000);
    expected.resize(20'000);
    EXPECT_TRUE(test::same(test::read(*file, 0, 20'000), expected));
    ASSERT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(test::same(contents("a.h5"), expected));
}

// A device that is gone: whatever touches its pages faults, that of the counters as well, and nothing can be allocated,
// written or removed there.
TEST_F(LogFault, a_staging_device_that_goes_away_costs_no_more_than_what_was_only_there) {
    const test::LoopMount device(64);
    if (!device.mounted()) GTEST_SKIP() << "needs root, and a loop device";
    std::filesystem::create_directory(device.path() / "area");
    engine_ = stage::Engine::create(test::small_options(),
                                    [&] { return io::open_posix_directory((device.path() / "area").string()); });
    {
        const auto file = open("a.h5"), other = open("other.h5");
        Content now;
        const auto append = [&](std::size_t bytes, std::uint64_t seed, ByteClass byte_class) {
            const Content more = test::bytes_of(bytes, seed);
            EXPECT_TRUE(file->write(now.size(), more, byte_class));
            now.insert(now.end(), more.begin(), more.end());
        };
        append(100'000, 1, ByteClass::kRaw);
        append(5'000, 2, ByteClass::kMetadata);
        ASSERT_TRUE(file->commit());
        ASSERT_TRUE(file->drain());
        Content theirs = test::bytes_of(40'000, 9);
        ASSERT_TRUE(other->write(0, theirs, ByteClass::kMetadata));
        ASSERT_TRUE(device.shut_down());
        append(70'000, 4, ByteClass::kRaw);
        append(1 << 20, 5, ByteClass::kMetadata);   // more than the segments that are there and had been touched before
        EXPECT_TRUE(test::same(test::read(*file, 0, now.size()), now));
        EXPECT_TRUE(file->commit());
        EXPECT_FALSE(file->staged());
        EXPECT_TRUE(test::same(contents("a.h5"), now));
        EXPECT_GT(file->counters().requests, 0u);
        EXPECT_TRUE(engine_->detach(file, true));

        EXPECT_EQ(other->read(0, theirs).sys_errno(), EIO);
        (void)other->commit();
        EXPECT_EQ(other->commit().sys_errno(), EIO);
        const Status closed = engine_->detach(other, true);
        EXPECT_EQ(closed.sys_errno(), EIO);
        EXPECT_NE(closed.message().find("40000 bytes stay in the staging log"), std::string::npos) << closed.message();

        // Files that are opened later find no room in the log, and are written all the same.
        const auto later = open("later.h5");
        EXPECT_TRUE(later->write(0, now, ByteClass::kRaw));
        EXPECT_TRUE(engine_->detach(later, true));
        EXPECT_TRUE(test::same(contents("later.h5"), now));
    }
    engine_.reset();
}

// A device that takes bytes, and fails to write them back later: the log has zeros in their place, and no page faults.
class LogLosses : public LogFault, public testing::WithParamInterface<Durability> {};

TEST_P(LogLosses, bytes_that_the_device_has_lost_fail_each_later_flush_and_the_close) {
    const test::LosingMount device("ext4");
    if (!device.why_not().empty()) GTEST_SKIP() << device.why_not();
    std::filesystem::create_directory(device.path() / "area");
    LoadedOptions options = test::small_options();
    options.options.durability = GetParam();
    options.options.size = 32 << 20;
    engine_ = stage::Engine::create(options,
                                    [&] { return io::open_posix_directory((device.path() / "area").string()); });
    {
        const auto file = open("a.h5"), other = open("other.h5");
        for (const auto& one : {file, other}) ASSERT_TRUE(one->write(0, test::bytes_of(1000, 1), ByteClass::kMetadata));
        ASSERT_TRUE(device.begin_losing());
        for (const auto& one : {file, other})
            ASSERT_TRUE(one->write(0, test::bytes_of(4 << 20, 2), ByteClass::kMetadata)) << "the device takes them";
        for (const auto& entry : std::filesystem::recursive_directory_iterator(device.path() / "area"))
            if (entry.path().filename() == "log") {
                ASSERT_TRUE(device.forget(entry.path()));
            }
        for (const auto& one : {file, other}) {
            EXPECT_FALSE(one->commit());
            EXPECT_FALSE(one->commit()) << "not only the first call tells";
            EXPECT_FALSE(engine_->detach(one, true));
        }
        // A file whose bytes are not among those that were lost.
        const auto later = open("later.h5");
        const Status closed = engine_->detach(later, true);
        EXPECT_TRUE(closed) << closed.message();
    }
    engine_.reset();
}

INSTANTIATE_TEST_SUITE_P(Of, LogLosses, testing::Values(Durability::kProcess, Durability::kNode),
                         [](const auto& given) {
                             return std::string(given.param == Durability::kNode ? "node" : "process");
                         });

// The cut at every page of the log, in every phase, for either durability: what was said to be well is well.
struct Cut {
    Durability durability;
    unsigned phase;   // before which step the log is cut
};
class LogCut : public LogFault, public testing::WithParamInterface<Cut> {};

TEST_P(LogCut, wherever_the_log_is_cut_nothing_is_wrong_unsaid) {
    LoadedOptions options = test::small_options();
    options.options.durability = GetParam().durability;
    options.options.size = 512 << 10;
    unsigned noticed = 0;
    for (std::uint64_t cut = 0; cut <= 5 * kSegment; cut += 12 << 10) {
        SCOPED_TRACE(testing::Message() << "cut to " << cut);
        start(options);
        const auto file = open("a.h5");
        Content now;
        bool said = false, whole = true;
        const auto told = [&](const Status& status) {
            said = said || !status.is_ok();
            return status.is_ok();
        };
        for (unsigned step = 0; step < 12; ++step) {
            if (step == GetParam().phase) cut_log(cut / 4096 * 4096);
            const Content bytes = test::bytes_of(20'000, step);
            const std::uint64_t offset = step < 8 ? step * 20'000 : (step - 8) * 9'000;
            if (!told(file->write(offset, bytes, step % 3 == 0 ? ByteClass::kMetadata : ByteClass::kRaw)))
                whole = false;
            if (!whole) break;
            if (now.size() < offset + bytes.size()) now.resize(offset + bytes.size());
            std::copy(bytes.begin(), bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(offset));
            Content back(now.size());
            if (told(file->read(0, back))) {
                ASSERT_TRUE(test::same(back, now));
            }
            if (step % 4 == 3) (void)told(file->commit());
        }
        const bool closed = told(engine_->detach(file, true));
        if (closed && whole) {
            EXPECT_TRUE(test::same(contents("a.h5"), now));
        }
        EXPECT_TRUE(said || !file->lifecycle().leaves_log());
        noticed += said || file->counters().aside != 0 ? 1 : 0;
        engine_.reset();
        std::filesystem::remove_all(root_ / "area");
        std::filesystem::create_directory(root_ / "area");
        std::filesystem::remove(root_ / "a.h5");
    }
    EXPECT_GT(noticed, 2u);
}

INSTANTIATE_TEST_SUITE_P(Every, LogCut,
                         testing::Values(Cut{Durability::kProcess, 1}, Cut{Durability::kProcess, 5},
                                         Cut{Durability::kProcess, 9}, Cut{Durability::kNode, 1},
                                         Cut{Durability::kNode, 5}, Cut{Durability::kNode, 9}),
                         [](const auto& given) {
                             return std::string(given.param.durability == Durability::kNode ? "node" : "process") +
                                    "_before_step_" + std::to_string(given.param.phase);
                         });

}   // namespace
}   // namespace forebay
