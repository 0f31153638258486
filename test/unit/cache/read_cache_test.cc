#include "cache/read_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "cache/attached_replica.h"
#include "io/forwarding_file.h"
#include "io/memory_file.h"
#include "io/posix_file.h"
#include "support/scratch_folder.h"
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
    io::FileTraits traits_{.local = false, .times = io::TimesKind::kServed, .sure_versions = true};
    void replace(io::Bytes content) { EXPECT_TRUE(file().write_at(0, content)); }
    std::atomic<int> reads_{0};
};

class ReadCacheTest : public testing::Test {
  protected:
    ReadCacheTest() {
        options_.read_cache = ReadCacheMode::kOn;
        options_.size = kUnitBytes;
        std::filesystem::create_directories(place_ + "/forebay-0/cache");   // whose device is asked for its room
    }
    ~ReadCacheTest() override { std::filesystem::remove_all(place_); }

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
    const std::string place_ = test::make_scratch_folder();
    std::unique_ptr<io::Directory> root_ = io::make_memory_directory(place_);
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
    options_.read_cache = ReadCacheMode::kOff;
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

// ---- on a file system whose times and numbers say little -------------------------------------------

TEST_F(ReadCacheTest, another_file_with_the_same_numbers_and_times_is_not_taken_for_the_first) {
    source_->traits_.sure_versions = false;
    const auto cache = this->cache();
    {
        const auto file = cache->open(source_, warning_);
        ASSERT_NE(file, nullptr) << warning_;
        EXPECT_EQ(read(*file), content_);
        file->await_stored();
        EXPECT_EQ(read(*file), content_);
        EXPECT_EQ(file->counters().hit_bytes.load(), content_.size()) << "while it is open";
        cache->note_closed(*file);
    }
    // Its file system is unmounted, and another image is mounted in its place.
    const auto other = test::bytes_of(content_.size(), 6);
    source_->replace(other);
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr) << warning_;
    EXPECT_EQ(read(*file), other);
    EXPECT_EQ(file->counters().hit_bytes.load(), 0u);
}

TEST_F(ReadCacheTest, processes_that_have_it_open_at_once_share_what_they_read) {
    source_->traits_.sure_versions = false;
    const auto one = cache(), two = cache();
    const auto first = one->open(source_, warning_), second = two->open(source_, warning_);
    ASSERT_TRUE(first != nullptr && second != nullptr) << warning_;
    EXPECT_EQ(read(*first), content_);
    first->await_stored();
    EXPECT_EQ(read(*second), content_);
    EXPECT_EQ(second->counters().hit_bytes.load(), content_.size());
}

TEST_F(ReadCacheTest, a_file_without_times_is_left_alone) {
    source_->traits_.sure_versions = false;
    source_->state_.changed_ns = 0;
    const auto cache = this->cache();
    EXPECT_EQ(cache->open(source_, warning_), nullptr);
    EXPECT_EQ(cache->totals().asides[static_cast<std::size_t>(Aside::kUnsure)], 1u);
}

// Small files whose paths are those of files, so that they can have leases.
class LeaseTest : public ReadCacheTest {
  protected:
    class Source final : public io::ForwardingFile {
      public:
        explicit Source(std::shared_ptr<ServedFile> file)
            : ForwardingFile(file), of_(io::identify(file->name()).value()) {}
        io::FileTraits traits() override { return count(ForwardingFile::traits()); }
        Result<io::Identity> identity() override { return of_; }
        Result<std::uint64_t> size() override { return count(ForwardingFile::size()); }
        Result<io::FileState> state(Ask ask) override { return count(ForwardingFile::state(ask)); }
        Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
            return count(ForwardingFile::read_at(offset, into));
        }
        std::atomic<int> asked_{0};

      private:
        template <class T>
        T count(T answer) {
            ++asked_;
            return answer;
        }
        const io::Identity of_;
    };

    std::shared_ptr<Source> source(const std::string& path) {
        if (!std::filesystem::exists(path)) std::ofstream(path) << "served";
        return std::make_shared<Source>(std::make_shared<ServedFile>(small_, path));
    }
    void read_once(ReadCache& cache, const std::string& path, LeasedFile* leased = nullptr) {
        const auto from = source(path);
        const auto file = cache.open(from, warning_, true, leased);
        ASSERT_NE(file, nullptr) << warning_;
        std::vector<std::byte> bytes(small_.size());
        EXPECT_EQ(file->size().value(), small_.size());
        EXPECT_EQ(file->read_at(0, bytes).value(), small_.size());
        EXPECT_EQ(bytes, small_);
        cache.note_closed(*file);
        EXPECT_EQ(from->asked_ == 0, leased != nullptr);
    }

    const std::string path_ = place_ + "/a.h5", other_ = place_ + "/b.h5";
    const std::vector<std::byte> small_ = test::bytes_of(5000, 5);
};

TEST_F(LeaseTest, a_file_that_was_opened_before_is_opened_without_asking_it_anything) {
    for (const std::uint64_t revalidate : {kRevalidateNever, std::uint64_t{3600}}) {
        options_.revalidate = revalidate;
        const auto cache = this->cache();
        EXPECT_TRUE(cache->has_leases());
        EXPECT_EQ(cache->leased(path_), nullptr) << "it was not opened yet";
        read_once(*cache, path_);
        for (int opens = 0; opens < 2; ++opens) {
            const auto leased = cache->leased(path_);
            ASSERT_NE(leased, nullptr);
            EXPECT_EQ(leased->lease.version.size, small_.size());
            read_once(*cache, path_, leased.get());
        }
        EXPECT_EQ(cache->totals().files, 3u);
        EXPECT_EQ(cache->leased(other_), nullptr);
    }
    for (const std::uint64_t revalidate : {kRevalidateOpen, kRevalidateAlways}) {
        options_.revalidate = revalidate;
        const auto cache = this->cache();
        read_once(*cache, path_);
        EXPECT_FALSE(cache->has_leases());
        EXPECT_EQ(cache->leased(path_), nullptr);
    }
}

TEST_F(LeaseTest, a_lease_ends_when_the_file_is_written_or_removed_and_a_symbolic_link_has_none) {
    options_.revalidate = kRevalidateNever;
    const auto cache = this->cache();
    read_once(*cache, path_);
    ASSERT_NE(cache->leased(path_), nullptr);
    const auto writing = cache->begin_writing(*source(path_));
    EXPECT_EQ(cache->leased(path_), nullptr);
    read_once(*cache, other_);
    ASSERT_NE(cache->leased(other_), nullptr);
    cache->drop_lease(other_);
    EXPECT_EQ(cache->leased(other_), nullptr);
    std::filesystem::create_symlink(path_, place_ + "/link.h5");
    read_once(*cache, place_ + "/link.h5");
    EXPECT_EQ(cache->leased(place_ + "/link.h5"), nullptr);
}

// ---- read_cache=auto: nobody has asked -------------------------------------------------------------

class UnaskedTest : public ReadCacheTest {
  protected:
    UnaskedTest() { options_.read_cache = ReadCacheMode::kAuto; }
    // Sources here are memory: they must not be called fast.
    std::unique_ptr<ReadCache> unasked() {
        return std::make_unique<ReadCache>(
            options_,
            [this]() -> Result<std::unique_ptr<io::Directory>> {
                ++opened_areas_;
                auto area = root_->create_directory("forebay-0");
                return area ? std::move(area) : root_->open_directory("forebay-0");
            },
            ReadCache::Manner{.judge_speed = false});
    }
    static constexpr std::uint64_t kRow = 8192;
    std::uint64_t rows() const { return content_.size() / kRow; }
    // One epoch, in an order that follows nothing.
    void train(io::File& file) const {
        std::vector<std::byte> row(kRow);
        for (std::uint64_t i = 0; i < rows(); ++i) {
            const std::uint64_t at = i * 37 % rows() * kRow;
            const auto got = file.read_at(at, row);
            ASSERT_TRUE(got && got.value() == kRow);
            ASSERT_TRUE(std::ranges::equal(row, std::span(content_).subspan(at, kRow)));
        }
    }
    std::vector<std::string> cached() const {
        const auto area = root_->open_directory("forebay-0");
        if (!area) return {};
        const auto cache = area.value()->open_directory("cache");
        std::vector<std::string> names;
        if (cache)
            for (const ReplicaView& view : list_replicas(*cache.value())) names.push_back(view.name);
        return names;
    }
    static std::uint64_t count(const CacheTotals& totals, Aside why) {
        return totals.asides[static_cast<std::size_t>(why)];
    }
};

TEST_F(UnaskedTest, a_file_that_is_read_once_leaves_no_trace_on_the_node) {
    const auto cache = unasked();
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    std::vector<std::byte> piece(4096);
    for (std::uint64_t at = 0; at + piece.size() <= content_.size(); at += piece.size())
        ASSERT_TRUE(file->read_at(at, piece));
    EXPECT_EQ(file->attached(), nullptr);
    cache->note_closed(*file);
    EXPECT_EQ(opened_areas_, 0);
    EXPECT_EQ(cache->totals().files, 0u);
    EXPECT_EQ(count(cache->totals(), Aside::kOnce), 1u);
}

TEST_F(UnaskedTest, a_training_is_cached_and_nothing_is_left_after_it) {
    const auto cache = unasked();
    {
        const auto file = cache->open(source_, warning_);
        ASSERT_NE(file, nullptr);
        for (int epoch = 0; epoch < 3; ++epoch) {
            train(*file);
            file->await_stored();
        }
        EXPECT_NE(file->attached(), nullptr);
        EXPECT_GT(file->counters().hit_bytes.load(), content_.size());
        EXPECT_EQ(cached().size(), 1u);
        cache->note_closed(*file);
    }
    EXPECT_EQ(cached().size(), 1u) << "the process may open it again";
    EXPECT_TRUE(cache->stop(std::chrono::steady_clock::time_point::max()));
    EXPECT_EQ(cached().size(), 0u);
    EXPECT_EQ(cache->totals().files, 1u);
}

TEST_F(UnaskedTest, a_file_that_is_opened_for_each_sample_is_cached_all_the_same) {
    const auto cache = unasked();
    std::uint64_t hit_bytes = 0;
    std::vector<std::byte> row(kRow);
    for (int epoch = 0; epoch < 3; ++epoch)
        for (std::uint64_t i = 0; i < rows(); ++i) {
            const auto file = cache->open(source_, warning_);
            ASSERT_NE(file, nullptr);
            ASSERT_TRUE(file->read_at(i * 37 % rows() * kRow, row));
            file->close();
            cache->note_closed(*file);
        }
    hit_bytes = cache->totals().hit_bytes;
    EXPECT_GT(hit_bytes, content_.size());
}

TEST_F(UnaskedTest, a_young_file_is_read_itself_and_cached_once_it_is_older) {
    source_->state_.modified_ns = realtime_ns() - 30'000'000'000;
    const auto cache = unasked();
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    train(*file);
    EXPECT_EQ(file->attached(), nullptr);
    EXPECT_EQ(opened_areas_, 0);
    EXPECT_EQ(file->counters().aside.load(), Aside::kYoung);
    source_->state_.modified_ns = realtime_ns() - kHour;
    train(*file);
    EXPECT_NE(file->attached(), nullptr);
}

TEST_F(UnaskedTest, where_versions_are_not_sure_a_file_is_cached_only_on_demand) {
    source_->traits_.sure_versions = false;
    const auto cache = unasked();
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    for (int epoch = 0; epoch < 3; ++epoch) train(*file);
    EXPECT_EQ(file->attached(), nullptr);
    EXPECT_EQ(file->counters().aside.load(), Aside::kUnsure);
    ASSERT_TRUE(file->attach()->prefetcher().prefetch(std::array{ByteRange{0, content_.size()}}));
    EXPECT_NE(file->attached(), nullptr);
    while (file->attached()->prefetcher().left() > 0) file->await_stored();
    EXPECT_EQ(read(*file), content_);
    EXPECT_EQ(file->counters().hit_bytes.load(), content_.size());
}

TEST_F(UnaskedTest, a_staging_area_that_fails_is_told_nobody) {
    options_.nls = "/nowhere";
    const auto cache = std::make_unique<ReadCache>(
        options_, []() -> Result<std::unique_ptr<io::Directory>> { return Status::from_errno(EIO, "open the area"); },
        ReadCache::Manner{.judge_speed = false});
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    for (int epoch = 0; epoch < 3; ++epoch) train(*file);
    EXPECT_EQ(warning_, "");
    EXPECT_EQ(file->counters().aside.load(), Aside::kFault);
    EXPECT_EQ(file->attach(), nullptr);
}

TEST_F(UnaskedTest, a_file_that_is_written_and_was_not_cached_opens_no_staging_area) {
    const auto cache = unasked();
    EXPECT_EQ(cache->begin_writing(*source_), nullptr);
    EXPECT_EQ(opened_areas_, 0);
}

TEST_F(UnaskedTest, a_file_whose_map_would_take_the_cache_is_read_itself) {
    options_.read_cache_size = 64 << 10;
    const auto cache = unasked();
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    for (int epoch = 0; epoch < 3; ++epoch) train(*file);
    EXPECT_EQ(opened_areas_, 0);
    EXPECT_EQ(file->counters().aside.load(), Aside::kFull);
}

TEST_F(UnaskedTest, where_versions_are_not_sure_no_replica_is_kept_when_the_file_is_closed) {
    source_->traits_.sure_versions = false;
    const auto cache = unasked();
    for (const unsigned seed : {5U, 6U}) {   // unmounted in between, and another image in its place
        const auto content = test::bytes_of(content_.size(), seed);
        source_->replace(content);
        const auto file = cache->open(source_, warning_);
        ASSERT_NE(file, nullptr);
        ASSERT_TRUE(file->attach()->prefetcher().prefetch(std::array{ByteRange{0, content.size()}}));
        while (file->attached()->prefetcher().left() > 0) file->await_stored();
        EXPECT_EQ(read(*file), content) << seed;
        EXPECT_EQ(file->counters().hit_bytes.load(), content.size()) << seed;
        file->close();
        cache->note_closed(*file);
    }
}

TEST_F(UnaskedTest, what_its_reads_cannot_have_the_program_can_ask_for) {
    options_.read_cache_size = 64 << 10;   // the map would take too much of it
    const auto cache = unasked();
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    train(*file);
    ASSERT_EQ(file->counters().aside.load(), Aside::kFull);
    EXPECT_NE(file->attach(), nullptr);
    EXPECT_EQ(file->counters().aside.load(), Aside::kNone);
}

TEST_F(UnaskedTest, a_replica_of_an_older_version_makes_no_new_one_of_a_file_that_is_read_once) {
    const auto cache = unasked();
    {
        const auto file = cache->open(source_, warning_);
        ASSERT_NE(file, nullptr);
        train(*file);
        ASSERT_NE(file->attached(), nullptr);
        file->close();
        cache->note_closed(*file);
    }
    source_->state_.modified_ns += 1;
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(read(*file), content_);
    EXPECT_EQ(file->attached(), nullptr);
    EXPECT_EQ(file->counters().stored_bytes.load(), 0u);
    for (int epoch = 0; epoch < 2; ++epoch) train(*file);
    EXPECT_NE(file->attached(), nullptr) << "it is trained on again";
}

TEST_F(UnaskedTest, a_replica_that_is_there_is_used_from_the_first_read_on) {
    const auto cache = unasked();
    {
        const auto file = cache->open(source_, warning_);
        ASSERT_NE(file, nullptr);
        ASSERT_TRUE(file->attach()->prefetcher().prefetch(std::array{ByteRange{0, content_.size()}}));
        while (file->attached()->prefetcher().left() > 0) file->await_stored();
        file->close();
        cache->note_closed(*file);
    }
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(read(*file), content_);
    EXPECT_EQ(file->counters().hit_bytes.load(), content_.size());
}

TEST_F(UnaskedTest, what_the_process_has_written_is_prefetched_if_an_option_says_so) {
    options_.prefetch = Prefetch::kWritten;
    const auto cache = unasked();
    EXPECT_EQ(cache->begin_writing(*source_), nullptr);
    EXPECT_EQ(opened_areas_, 0);
    const auto file = cache->open(source_, warning_);
    ASSERT_NE(file, nullptr);
    cache->prefetch_opened(*file);
    while (file->attached()->prefetcher().left() > 0) file->await_stored();
    EXPECT_EQ(read(*file), content_);
    EXPECT_EQ(file->counters().hit_bytes.load(), content_.size());
}

}   // namespace
}   // namespace forebay::cache
