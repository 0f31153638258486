// A file that was cut, and whose bytes drain before the next commit: the target is cut as well. Zeros in place of the
// end would take as long as writing it, and space that a sparse file never had.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/scripted_file.h"

namespace forebay::stage {
namespace {

using test::bytes_of;
using test::same;

constexpr std::uint64_t kLong = 16 << 20, kShort = 100'000, kPiece = 30'000;

// The reason why uncommitted bytes drain.
enum class Why { kFull, kBypass, kStepAside, kDrain };
struct Case {
    const char* name;
    Why why;
    Durability durability = Durability::kProcess;
};

class UncommittedCut : public testing::TestWithParam<Case> {
  protected:
    UncommittedCut() {
        LoadedOptions loaded = test::small_options();
        loaded.options.size = 256 << 10;
        loaded.options.durability = GetParam().durability;
        if (GetParam().why == Why::kBypass) loaded.options.full = WhenFull::kThrough;
        engine_ = Engine::create(loaded, area_.opener());
        auto attached = engine_->attach({std::make_unique<test::ScriptedFile>(target_.open(), script_), true});
        EXPECT_TRUE(attached) << attached.status().message();
        file_ = attached.value().file;
    }
    void write(std::uint64_t offset, std::size_t size, std::uint64_t seed) {
        const auto bytes = bytes_of(size, seed);
        ASSERT_TRUE(file_->write(offset, bytes, ByteClass::kMetadata));
        if (now_.size() < offset + size) now_.resize(offset + size);
        std::copy(bytes.begin(), bytes.end(), now_.begin() + static_cast<std::ptrdiff_t>(offset));
        wrote_ += size;
    }
    void truncate(std::uint64_t size) {
        ASSERT_TRUE(file_->truncate(size));
        now_.resize(size);
    }
    [[nodiscard]] std::uint64_t written_to_target() const {
        std::uint64_t bytes = 0;
        for (const test::FileCall& call : script_->calls(io::Operation::kWrite)) bytes += call.size;
        return bytes;
    }

    test::Area area_;
    test::Target target_;
    std::shared_ptr<test::Script> script_ = std::make_shared<test::Script>();
    std::unique_ptr<Engine> engine_;
    std::shared_ptr<StagedFile> file_;
    std::vector<std::byte> now_;
    std::uint64_t wrote_ = 0;
};

TEST_P(UncommittedCut, cuts_the_target_when_the_bytes_drain_before_their_commit) {
    write(0, kShort, 1);
    truncate(kLong);
    write(kLong - kPiece, kPiece, 2);
    ASSERT_TRUE(file_->commit());
    ASSERT_TRUE(file_->drain());
    ASSERT_EQ(target_.contents().size(), kLong);
    truncate(kShort);
    switch (GetParam().why) {
        case Why::kFull:
        case Why::kBypass:
            // More than the log has room for, and as many records of bypassing writes as it keeps places for.
            for (std::uint64_t i = 0; i < 80; ++i) write(i % 3 * kPiece, kPiece, 10 + i);
            break;
        case Why::kStepAside:
            write(0, kPiece, 3);
            ASSERT_TRUE(file_->lifecycle().step_aside(ledger::AsideReason::kDriver));
            break;
        case Why::kDrain:
            write(0, kPiece, 3);
            ASSERT_TRUE(file_->drain());
            break;
    }
    EXPECT_GE(file_->counters().guarantee_given_up, kLong - kShort);
    EXPECT_LE(written_to_target(), wrote_);
    truncate(2 * kShort);
    write(2 * kShort, kPiece, 4);
    EXPECT_TRUE(same(test::read(*file_, 0, now_.size()), now_));
    ASSERT_TRUE(file_->commit());
    test::Crash crash(*area_.shared_open(), [&] { return target_.contents(); }, target_.identity());
    ASSERT_TRUE(crash.recover());
    EXPECT_TRUE(same(crash.contents(), now_));
    ASSERT_TRUE(engine_->detach(file_, true));
    EXPECT_TRUE(same(target_.contents(), now_));
    EXPECT_LE(written_to_target(), wrote_ + kShort);
}

// The file has grown beyond the place where it was cut: only zeros tell of that.
TEST_P(UncommittedCut, writes_zeros_up_to_the_end_of_a_file_that_has_grown_again) {
    write(0, kShort, 1);
    truncate(kLong);
    write(2 * kShort - kPiece, 2 * kPiece, 2);
    ASSERT_TRUE(file_->commit());
    ASSERT_TRUE(file_->drain());
    truncate(kShort);
    truncate(2 * kShort);
    ASSERT_TRUE(file_->drain());
    EXPECT_LE(written_to_target(), wrote_ + kShort);
    truncate(3 * kShort);
    EXPECT_TRUE(same(test::read(*file_, 0, now_.size()), now_));
    ASSERT_TRUE(engine_->detach(file_, true));
    EXPECT_TRUE(same(target_.contents(), now_));
}

INSTANTIATE_TEST_SUITE_P(Why, UncommittedCut,
                         testing::Values(Case{"full", Why::kFull}, Case{"full_node", Why::kFull, Durability::kNode},
                                         Case{"bypass", Why::kBypass}, Case{"step_aside", Why::kStepAside},
                                         Case{"drain", Why::kDrain},
                                         Case{"drain_node", Why::kDrain, Durability::kNode}),
                         [](const auto& given) { return given.param.name; });

}   // namespace
}   // namespace forebay::stage
