// How a target write of many small pieces is made: put together first for a target that is waited for, as it may take
// pages and not bytes.
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "io/forwarding_file.h"
#include "support/engine_fixture.h"

namespace forebay::stage {
namespace {

using test::Area;
using test::Target;

constexpr std::uint64_t kMiB = 1 << 20, kPiece = 4096, kPieces = 600;

// Notes how it is written to.
class NotedFile final : public io::ForwardingFile {
  public:
    struct Writes {
        std::mutex mutex;
        std::vector<std::size_t> whole, pieces;   // sizes of the former, numbers of the latter
        std::vector<const std::byte*> from;       // the former's memory
    };

    NotedFile(std::unique_ptr<io::File> file, std::shared_ptr<Writes> writes)
        : ForwardingFile(std::move(file)), writes_(std::move(writes)) {}
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        const std::lock_guard lock(writes_->mutex);
        writes_->whole.push_back(bytes.size());
        writes_->from.push_back(bytes.data());
        return file().write_at(offset, bytes);
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        const std::lock_guard lock(writes_->mutex);
        writes_->pieces.push_back(pieces.size());
        return file().write_gather_at(offset, pieces);
    }

  private:
    std::shared_ptr<Writes> writes_;
};

// A file of 600 pieces of 4 KiB in the midst of which some were cut off and never written again, committed at once.
std::shared_ptr<NotedFile::Writes> write_small_pieces(std::uint64_t patience, std::vector<std::byte>& contents) {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 64 * kMiB;
    loaded.options.segment = kMiB;
    loaded.options.stripe = loaded.options.write_max = 8 * kMiB;
    loaded.options.patience = patience;
    Area area;
    Target target;
    auto engine = Engine::create(loaded, area.opener());
    auto writes = std::make_shared<NotedFile::Writes>();
    auto attached = engine->attach({std::make_unique<NotedFile>(target.open(), writes), true});
    EXPECT_TRUE(attached);
    const auto file = attached.value().file;
    for (std::uint64_t i = 0; i < kPieces; ++i)
        EXPECT_TRUE(file->write(i * kPiece, test::bytes_of(kPiece, i), ByteClass::kMetadata));
    EXPECT_TRUE(file->truncate((kPieces - 50) * kPiece));
    EXPECT_TRUE(file->write((kPieces - 1) * kPiece, test::bytes_of(kPiece, kPieces - 1), ByteClass::kMetadata));
    EXPECT_TRUE(engine->detach(file, true));
    contents = target.contents();
    return writes;
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
    EXPECT_GE(writes->whole.size(), 2u);
    for (std::size_t i = 0; i < writes->whole.size(); ++i) {
        EXPECT_LE(writes->whole[i], kMiB);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(writes->from[i]) % 4096, 0u);
    }
    for (const std::size_t pieces : writes->pieces) EXPECT_LT(pieces, 32u);
}

TEST(SmallPieces, go_as_they_are_where_nobody_is_known_to_wait) {
    std::vector<std::byte> contents;
    const auto writes = write_small_pieces(0, contents);
    EXPECT_TRUE(test::same(contents, expected_contents()));
    std::size_t most = 0;
    for (const std::size_t pieces : writes->pieces) most = std::max(most, pieces);
    EXPECT_GE(most, 500u);
}

}   // namespace
}   // namespace forebay::stage
