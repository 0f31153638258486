// Writes of several threads to one file, put together: what is in the file in the end, and who is told of a failure.
#include "server/write_combiner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/forwarding_file.h"
#include "io/memory_file.h"
#include "support/seeds.h"

namespace forebay::server {
namespace {

using Content = std::vector<std::byte>;
using Piece = WriteCombiner::Piece;

// A file whose writes stop at a gate, if it is closed, and fail where they touch a byte of `bad`.
class GatedFile final : public io::ForwardingFile {
  public:
    GatedFile() : ForwardingFile(std::shared_ptr<io::File>(io::make_memory_file("gated"))) {}
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        ByteRange range{offset, offset};
        for (const io::Bytes& piece : pieces) range.end += piece.size();
        {
            std::unique_lock lock(mutex_);
            writes_.push_back(range);
            ++waiting_;
            changed_.notify_all();
            changed_.wait(lock, [&] { return open_ || let_through_ > 0; });
            if (!open_) --let_through_;
            --waiting_;
        }
        if (range.overlaps(bad)) return Status::from_errno(EIO, "write");
        return file().write_gather_at(offset, pieces);
    }
    void close_gate() {
        const std::lock_guard lock(mutex_);
        open_ = false;
    }
    void open_gate() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void let_through(std::size_t count) {
        const std::lock_guard lock(mutex_);
        let_through_ += count;
        changed_.notify_all();
    }
    void await_waiting(std::size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return waiting_ >= count; });
    }
    std::vector<ByteRange> writes() {
        const std::lock_guard lock(mutex_);
        return writes_;
    }
    ByteRange bad;

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<ByteRange> writes_;
    std::size_t waiting_ = 0, let_through_ = 0;
    bool open_ = true;
};

Content filled(std::size_t size, int value) { return Content(size, static_cast<std::byte>(value)); }

Status put(WriteCombiner& combiner, std::uint64_t offset, const Content& bytes) {
    const Piece piece{offset, bytes};
    return combiner.write({&piece, 1});
}

// Until so many requests have been handed in.
void await_requests(const WriteCombiner& combiner, std::uint64_t count) {
    while (combiner.totals().requests < count) std::this_thread::yield();
}

Content content_of(io::File& file) {
    Content bytes(file.size().value());
    EXPECT_EQ(file.read_at(0, bytes).value(), bytes.size());
    return bytes;
}

TEST(WriteCombiner, what_comes_while_all_leaders_write_is_joined) {
    GatedFile file;
    WriteCombiner combiner(file, 0, 2);
    file.close_gate();
    std::vector<std::jthread> threads;
    std::vector<Content> parts;
    for (int i = 0; i < 10; ++i) parts.push_back(filled(100, i + 1));
    const auto write = [&](int i) { EXPECT_TRUE(put(combiner, static_cast<std::uint64_t>(i) * 100, parts[i])); };
    for (int i = 0; i < 2; ++i) threads.emplace_back(write, i * 9);   // the first and the last part, by two leaders
    file.await_waiting(2);
    for (int i = 8; i > 0; --i) threads.emplace_back(write, i);
    await_requests(combiner, 10);
    file.open_gate();
    threads.clear();
    EXPECT_EQ(file.writes().size(), 3u);
    EXPECT_EQ(combiner.totals().writes, file.writes().size());
    EXPECT_EQ(combiner.totals().bytes, 1000u);
    const Content got = content_of(file);
    for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(got[i], static_cast<std::byte>(i / 100 + 1)) << i;
}

// What has queued and does not adjoin is written side by side: neither waits for the other's write.
TEST(WriteCombiner, what_does_not_adjoin_has_leaders_of_its_own) {
    GatedFile file;
    WriteCombiner combiner(file, 0, 2);
    file.close_gate();
    const Content one = filled(100, 1);
    std::vector<std::jthread> threads;
    const auto write = [&](std::uint64_t at) { EXPECT_TRUE(put(combiner, at, one)); };
    for (const std::uint64_t at : {0u, 1000u}) threads.emplace_back(write, at);
    file.await_waiting(2);
    for (const std::uint64_t at : {2000u, 3000u, 2100u}) threads.emplace_back(write, at);
    await_requests(combiner, 5);
    file.let_through(2);
    while (file.writes().size() < 4) std::this_thread::yield();
    file.await_waiting(2);
    auto writes = file.writes();
    std::ranges::sort(writes, {}, &ByteRange::begin);
    EXPECT_EQ(writes[2], (ByteRange{2000, 2200}));
    EXPECT_EQ(writes[3], (ByteRange{3000, 3100}));
    file.open_gate();
    threads.clear();
    EXPECT_EQ(file.writes().size(), 4u);
    EXPECT_EQ(combiner.totals().bytes, 500u);
}

TEST(WriteCombiner, the_last_of_overlapping_pieces_wins) {
    GatedFile file;
    WriteCombiner combiner(file, 0, 2);
    const Content one = filled(100, 1), two = filled(100, 2), three = filled(10, 3);
    const std::vector<Piece> pieces{{0, one}, {50, two}, {60, three}};
    EXPECT_TRUE(combiner.write(pieces));
    const Content got = content_of(file);
    ASSERT_EQ(got.size(), 150u);
    EXPECT_EQ(got[49], std::byte{1});
    EXPECT_EQ(got[50], std::byte{2});
    EXPECT_EQ(got[69], std::byte{3});
    EXPECT_EQ(got[70], std::byte{2});
}

TEST(WriteCombiner, a_later_request_waits_for_an_earlier_one_that_it_overlaps) {
    GatedFile file;
    WriteCombiner combiner(file, 0, 2);
    file.close_gate();
    const Content one = filled(100, 1), two = filled(100, 2);
    std::jthread first([&] { EXPECT_TRUE(put(combiner, 0, one)); });
    file.await_waiting(1);
    std::jthread second([&] { EXPECT_TRUE(put(combiner, 50, two)); });
    await_requests(combiner, 2);
    EXPECT_EQ(file.writes().size(), 1u);
    file.open_gate();
    first.join();
    second.join();
    EXPECT_EQ(content_of(file)[50], std::byte{2});
    EXPECT_EQ(file.writes().size(), 2u);
}

TEST(WriteCombiner, a_failure_reaches_those_whose_bytes_it_concerns) {
    GatedFile file;
    WriteCombiner combiner(file, 0, 2);
    file.bad = {250, 260};
    file.close_gate();
    const Content held = filled(1, 9);
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < 2; ++i)
        threads.emplace_back([&, i] { EXPECT_TRUE(put(combiner, 10'000 + 10 * i, held)); });
    file.await_waiting(2);
    std::vector<Content> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(filled(100, i + 1));
    std::vector<Status> outcomes(4);
    for (std::size_t i = 0; i < 4; ++i)
        threads.emplace_back([&, i] { outcomes[i] = put(combiner, i * 100, parts[i]); });
    await_requests(combiner, 6);
    file.open_gate();
    threads.clear();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(outcomes[i].is_ok(), i != 2) << outcomes[i].message();
    EXPECT_EQ(outcomes[2].sys_errno(), EIO);
    const Content got = content_of(file);
    for (const std::size_t i : {0u, 1u, 3u}) EXPECT_EQ(got[i * 100], static_cast<std::byte>(i + 1));
}

// Each thread has bytes of its own among those of others, and sees all that it has written. Now and then one cuts the
// file beyond them.
TEST(WriteCombiner, random_writes_of_threads_equal_a_byte_array) {
    for (const auto seed : test::seeds("combiner.model", 4)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        constexpr std::size_t kThreads = 6, kUnit = 64, kUnits = 600;
        GatedFile file;
        WriteCombiner combiner(file, 4096, 3);
        Content model(kThreads * kUnit * kUnits);
        ASSERT_TRUE(file.resize(model.size()));
        {
            std::vector<std::jthread> threads;
            for (std::size_t own = 0; own < kThreads; ++own)
                threads.emplace_back([&, own] {
                    std::mt19937_64 random(seed + own);
                    for (int turn = 0; turn < 300; ++turn) {
                        if (random() % 50 == 0) {
                            const std::function<Status()> cut = [&] { return file.resize(model.size()); };
                            ASSERT_TRUE(combiner.alone(cut));
                        }
                        std::vector<Content> bytes;
                        std::vector<Piece> pieces;
                        for (std::size_t i = 0; i < 1 + random() % 4; ++i) {
                            bytes.push_back(filled(1 + random() % kUnit, static_cast<int>(random() % 256)));
                            const std::size_t at = (random() % kUnits * kThreads + own) * kUnit;
                            pieces.push_back({at, bytes.back()});
                            std::ranges::copy(bytes.back(), model.begin() + static_cast<std::ptrdiff_t>(at));
                        }
                        for (std::size_t i = 0; i < bytes.size(); ++i) pieces[i].bytes = bytes[i];
                        ASSERT_TRUE(combiner.write(pieces));
                    }
                });
        }
        EXPECT_TRUE(content_of(file) == model);
        EXPECT_GE(combiner.totals().requests, 1800u);
    }
}

}   // namespace
}   // namespace forebay::server
