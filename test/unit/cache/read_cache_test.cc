#include "cache/read_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/clock.h"
#include "io/forwarding_file.h"
#include "io/memory_file.h"
#include "support/team_files.h"

namespace forebay::cache {
namespace {

constexpr std::uint64_t kHour = 3'600'000'000'000;

// On a file system that is not this machine's, written an hour ago.
class ServedFile final : public io::ForwardingFile {
  public:
    explicit ServedFile(io::Bytes content, const std::string& name = "/served/data.h5")
        : ForwardingFile(io::make_memory_file(name)) {
        EXPECT_TRUE(file().write_at(0, content));
        state_.size = content.size();
        state_.modified_ns = state_.changed_ns = realtime_ns() - kHour;
        state_.mode = S_IFREG | 0644;
    }
    io::FileTraits traits() override { return traits_; }
    Result<io::Identity> identity() override { return io::Identity{7, 1}; }
    Result<io::FileState> state(Ask) override { return state_; }
    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
        reads_ += 1;
        return ForwardingFile::read_at(offset, into);
    }

    io::FileState state_;
    io::FileTraits traits_{.local = false, .times = io::TimesKind::kServed};
    std::atomic<int> reads_{0};
};

class ReadCacheTest : public testing::Test {
  protected:
    ReadCacheTest() { options_.read_cache = true; }

    std::unique_ptr<ReadCache> cache() {
        return std::make_unique<ReadCache>(options_, [this]() -> Result<std::unique_ptr<io::Directory>> {
            ++opened_areas_;
            if (!area_.is_ok()) return area_;
            auto area = root_->create_directory("forebay-0");
            return area ? std::move(area) : root_->open_directory("forebay-0");
        });
    }
    std::vector<std::byte> read(io::File& file) const {
        std::vector<std::byte> bytes(content_.size());
        const auto got = file.read_at(0, bytes);
        EXPECT_TRUE(got && got.value() == bytes.size());
        return bytes;
    }

    Options options_;
    Status area_;
    int opened_areas_ = 0;
    std::unique_ptr<io::Directory> root_ = io::make_memory_directory("/local");
    const std::vector<std::byte> content_ = test::bytes_of(3 * kUnitBytes + 1000, 5);
    std::shared_ptr<ServedFile> source_ = std::make_shared<ServedFile>(content_);
    std::string warning_;
};

TEST_F(ReadCacheTest, a_file_is_read_from_its_source_once) {
    const auto cache = this->cache();
    for (int opens = 0; opens < 3; ++opens) {
        const auto file = cache->open(source_, warning_);
        ASSERT_NE(file, nullptr) << warning_;
        EXPECT_EQ(read(*file), content_);
        file->await_stored();
        cache->note_closed(*file);
    }
    const CacheTotals totals = cache->totals();
    EXPECT_EQ(totals.files, 3u);
    EXPECT_EQ(totals.missed_bytes, content_.size());
    EXPECT_EQ(totals.hit_bytes, 2 * content_.size());
    EXPECT_EQ(opened_areas_, 1);
    const auto by_path = cache->totals_by_path();
    ASSERT_EQ(by_path.size(), 1u);
    const CacheTotals& own = by_path.at("/served/data.h5");
    EXPECT_EQ(own.files, 3u);
    EXPECT_EQ(own.missed_bytes, totals.missed_bytes);
    EXPECT_EQ(own.hit_bytes, totals.hit_bytes);
}

TEST_F(ReadCacheTest, a_file_that_is_still_open_is_counted_under_its_name) {
    const auto cache = this->cache();
    const std::shared_ptr<CachedFile> open[] = {cache->open(source_, warning_)};
    ASSERT_NE(open[0], nullptr) << warning_;
    EXPECT_EQ(read(*open[0]), content_);
    EXPECT_TRUE(cache->totals_by_path().empty()) << "it is not closed";
    const auto by_path = cache->totals_by_path(open);
    EXPECT_EQ(by_path.at("/served/data.h5").files, 1u);
    EXPECT_EQ(by_path.at("/served/data.h5").missed_bytes, content_.size());
}

TEST_F(ReadCacheTest, of_many_files_the_last_share_a_name) {
    const auto cache = this->cache();
    constexpr int kFiles = 1200, kNamed = 1000;
    for (int i = 0; i < kFiles; ++i) {
        auto local = std::make_shared<ServedFile>(content_, fmt::format("/served/{}.h5", i));
        local->traits_.local = true;
        EXPECT_EQ(cache->open(local, warning_), nullptr);
    }
    const auto by_path = cache->totals_by_path();
    EXPECT_EQ(by_path.size(), kNamed + 1u);
    EXPECT_EQ(by_path.at("/served/999.h5").asides[static_cast<std::size_t>(Aside::kFast)], 1u);
    EXPECT_EQ(by_path.at("").asides[static_cast<std::size_t>(Aside::kFast)], kFiles - kNamed + 0u);
}

TEST_F(ReadCacheTest, without_the_option_nothing_is_looked_at) {
    options_.read_cache = false;
    const auto cache = this->cache();
    EXPECT_EQ(cache->open(source_, warning_), nullptr);
    EXPECT_EQ(cache->begin_writing(*source_), nullptr);
    EXPECT_EQ(opened_areas_, 0);
    EXPECT_EQ(cache->totals().files, 0u);
}

TEST_F(ReadCacheTest, without_a_descriptor_a_file_is_read_itself_and_a_later_one_is_cached) {
    const auto cache = this->cache();
    area_ = Status::from_errno(EMFILE, "open the staging area");
    EXPECT_EQ(cache->open(source_, warning_), nullptr);
    EXPECT_EQ(warning_, "") << "that is the program's own doing";
    EXPECT_EQ(cache->totals().asides[static_cast<std::size_t>(Aside::kFull)], 1u);
    area_ = Status::ok();
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr) << warning_;
    EXPECT_EQ(read(*file), content_);
}

TEST_F(ReadCacheTest, a_local_file_is_left_alone) {
    source_->traits_.local = true;
    const auto cache = this->cache();
    EXPECT_EQ(cache->open(source_, warning_), nullptr);
    EXPECT_EQ(opened_areas_, 0);
    EXPECT_EQ(cache->totals().asides[static_cast<std::size_t>(Aside::kFast)], 1u);
}

TEST_F(ReadCacheTest, what_is_no_file_of_bytes_is_left_alone) {
    const auto cache = this->cache();
    source_->state_.mode = S_IFIFO | 0644;
    EXPECT_EQ(cache->open(source_, warning_), nullptr);
    source_->state_.mode = S_IFREG | 0644;
    source_->state_.size = 0;
    EXPECT_EQ(cache->open(source_, warning_), nullptr);
    EXPECT_EQ(warning_, "");
}

TEST_F(ReadCacheTest, a_staging_area_that_fails_is_told_once_and_asked_once) {
    area_ = {Code::kNotFound, "option nls: /missing is not there"};
    const auto cache = this->cache();
    EXPECT_EQ(cache->open(source_, warning_), nullptr);
    EXPECT_THAT(warning_, testing::HasSubstr("/missing is not there (files are read without the read cache)"));
    warning_.clear();
    EXPECT_EQ(cache->open(source_, warning_), nullptr);
    EXPECT_EQ(warning_, "");
    EXPECT_EQ(opened_areas_, 1);
    EXPECT_EQ(cache->totals().asides[static_cast<std::size_t>(Aside::kFault)], 2u);
}

TEST_F(ReadCacheTest, nothing_is_read_from_a_replica_once_the_file_is_written) {
    const auto cache = this->cache(), of_another_process = this->cache();
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(read(*file), content_);
    file->await_stored();
    auto writing = of_another_process->begin_writing(*source_);
    ASSERT_NE(writing, nullptr);
    const int before = source_->reads_;
    EXPECT_EQ(read(*file), content_);
    EXPECT_GT(source_->reads_, before);
    EXPECT_EQ(cache->open(source_, warning_), nullptr) << "it is being written";
    writing.reset();
    EXPECT_NE(cache->open(source_, warning_), nullptr);
    EXPECT_EQ(warning_, "");
}

TEST_F(ReadCacheTest, a_file_that_is_opened_once_more_is_compared_again) {
    const auto cache = this->cache();
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(read(*file), content_);
    file->await_stored();
    file->look_again();
    const int before = source_->reads_;
    EXPECT_EQ(read(*file), content_);
    EXPECT_EQ(source_->reads_, before) << "it is the same version";

    const auto changed = test::bytes_of(content_.size(), 6);
    ASSERT_TRUE(source_->write_at(0, changed));
    source_->state_.modified_ns += 1;
    file->look_again();
    EXPECT_EQ(read(*file), changed);
    EXPECT_EQ(file->counters().aside.load(), Aside::kChanged);
}

TEST_F(ReadCacheTest, a_file_that_has_just_been_written_is_not_stored) {
    source_->state_.changed_ns = realtime_ns();
    const auto cache = this->cache();
    for (int opens = 0; opens < 2; ++opens) {
        const auto file = cache->open(source_, warning_);
        ASSERT_NE(file, nullptr);
        EXPECT_EQ(read(*file), content_);
        cache->note_closed(*file);
    }
    EXPECT_EQ(cache->totals().stored_bytes, 0u);
    EXPECT_EQ(cache->totals().hit_bytes, 0u);
}

}   // namespace
}   // namespace forebay::cache
