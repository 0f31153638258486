// How a target write of many small pieces is made: put together first for a target that is waited for, as it may take
// pages and not bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/engine_fixture.h"
#include "support/scripted_file.h"

namespace forebay::stage {
namespace {

using test::Area;
using test::Target;

constexpr std::uint64_t kMiB = 1 << 20, kPiece = 4096, kPieces = 600;

// A file of 600 pieces of 4 KiB in the midst of which some were cut off and never written again, committed at once.
std::vector<test::FileCall> write_small_pieces(std::uint64_t patience, std::vector<std::byte>& contents) {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 64 * kMiB;
    loaded.options.segment = kMiB;
    loaded.options.stripe = loaded.options.write_max = 8 * kMiB;
    loaded.options.patience = patience;
    Area area;
    Target target;
    auto engine = Engine::create(loaded, area.opener());
    const auto script = std::make_shared<test::Script>();
    auto attached = engine->attach({std::make_unique<test::ScriptedFile>(target.open(), script), true});
    EXPECT_TRUE(attached);
    const auto file = attached.value().file;
    for (std::uint64_t i = 0; i < kPieces; ++i)
        EXPECT_TRUE(file->write(i * kPiece, test::bytes_of(kPiece, i), ByteClass::kMetadata));
    EXPECT_TRUE(file->truncate((kPieces - 50) * kPiece));
    EXPECT_TRUE(file->write((kPieces - 1) * kPiece, test::bytes_of(kPiece, kPieces - 1), ByteClass::kMetadata));
    EXPECT_TRUE(engine->detach(file, true));
    contents = target.contents();
    return script->calls(io::Operation::kWrite);
}

std::vector<std::byte> expected_contents() {
    std::vector<std::byte> contents(kPieces * kPiece);
    for (std::uint64_t i = 0; i < kPieces; ++i) {
        if (i >= kPieces - 50 && i != kPieces - 1) continue;
        const auto piece = test::bytes_of(kPiece, i);
        std::copy(piece.begin(), piece.end(), contents.begin() + static_cast<std::ptrdiff_t>(i * kPiece));
    }
    return contents;
}

TEST(SmallPieces, go_together_and_from_whole_pages_to_a_target_that_is_waited_for) {
    std::vector<std::byte> contents;
    const auto writes = write_small_pieces(60, contents);
    EXPECT_TRUE(test::same(contents, expected_contents()));
    EXPECT_GE(std::ranges::count(writes, 0u, &test::FileCall::pieces), 2);
    for (const test::FileCall& write : writes) {
        EXPECT_LT(write.pieces, 32u);
        if (write.pieces != 0) continue;
        EXPECT_LE(write.size, kMiB);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(write.from) % 4096, 0u);
    }
}

TEST(SmallPieces, go_as_they_are_where_nobody_is_known_to_wait) {
    std::vector<std::byte> contents;
    const auto writes = write_small_pieces(0, contents);
    EXPECT_TRUE(test::same(contents, expected_contents()));
    EXPECT_GE(std::ranges::max(writes, {}, &test::FileCall::pieces).pieces, 500u);
}

}   // namespace
}   // namespace forebay::stage
