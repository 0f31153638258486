// A source whose answers a test controls, and a file that is read from it through a replica.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <condition_variable>

#include "cache/attached_replica.h"
#include "cache/cached_file.h"
#include "io/memory_file.h"
#include "support/memory_source.h"
#include "support/team_files.h"

namespace forebay::cache {

using test::bytes_of;
using test::same;

inline std::uint64_t later() noexcept { return 1'000'000'000'000; }
inline std::uint64_t early() noexcept { return 1; }
inline std::uint64_t standing() noexcept { return 5; }

class Purse final : public Account {
  public:
    explicit Purse(std::uint64_t bytes) : left_(bytes) {}
    bool take(std::uint64_t bytes) noexcept override {
        std::uint64_t left = left_.load();
        while (left >= bytes)
            if (left_.compare_exchange_weak(left, left - bytes)) return true;
        return false;
    }
    void give_back(std::uint64_t bytes) noexcept override { left_ += bytes; }
    std::uint64_t left() const { return left_; }

  private:
    std::atomic<std::uint64_t> left_;
};

// A source whose reads are counted, and held up or failed when the test says so; its times are the test's.
class Source final : public test::MemorySource {
  public:
    using MemorySource::MemorySource;
    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
        {
            std::unique_lock lock(mutex_);
            ++reads_;
            bytes_ += into.size();
            changed_.notify_all();
            changed_.wait(lock, [this] { return !shut_; });
            if (failing_) return Status::from_errno(EIO, "read");
        }
        return file().read_at(offset, into);
    }
    Result<io::FileState> state(Ask) override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !unanswered_; });
        if (stat_error_ != 0) return Status::from_errno(stat_error_, "fstat");
        return known_;
    }
    void change(const std::vector<std::byte>& content) {
        EXPECT_TRUE(file().write_at(0, content));
        const std::lock_guard lock(mutex_);
        known_.modified_ns += 1;
    }
    void set_shut(bool shut) {
        const std::lock_guard lock(mutex_);
        shut_ = shut;
        changed_.notify_all();
    }
    void set_unanswered(bool unanswered) {
        const std::lock_guard lock(mutex_);
        unanswered_ = unanswered;
        changed_.notify_all();
    }
    void set_failing(bool failing) {
        const std::lock_guard lock(mutex_);
        failing_ = failing;
    }
    // 0: the calls succeed.
    void set_stat_error(int error) {
        const std::lock_guard lock(mutex_);
        stat_error_ = error;
    }
    void await_reads(std::uint64_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return reads_ >= count; });
    }
    std::uint64_t bytes() const {
        const std::lock_guard lock(mutex_);
        return bytes_;
    }

  private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t reads_ = 0, bytes_ = 0;
    int stat_error_ = 0;
    bool shut_ = false, failing_ = false, unanswered_ = false;
};

class CachedFileTest : public testing::Test {
  protected:
    static constexpr std::uint64_t kSize = 10 * kUnitBytes + 12345;

    CachedFileTest() : content_(bytes_of(kSize, 1)), source_(std::make_shared<Source>(content_)) {}

    std::shared_ptr<Replica> replica(std::byte boot = std::byte{0}) {
        area::BootId boot_id{};
        boot_id[0] = boot;
        auto opened = Replica::open(folder(), version(), boot_id, 1, purse_);
        EXPECT_TRUE(opened) << opened.status().message();
        return opened.value();
    }
    Version version() const { return version_of({1, 2}, source_->state(io::File::Ask::kTimes).value()); }
    std::unique_ptr<io::Directory> folder() {
        auto made = area_->create_directory("1-2");
        return made ? std::move(made).value() : std::move(area_->open_directory("1-2")).value();
    }
    std::unique_ptr<CachedFile> open(std::shared_ptr<Replica> replica, CachePolicy policy = policy_of()) {
        return std::make_unique<CachedFile>(source_, std::move(replica), tasks_, policy);
    }
    static CachePolicy policy_of() {
        return {.young_ns = 1000, .now_ns = later, .steady_ns = standing, .judge_speed = false};
    }
    static std::vector<std::byte> read(CachedFile& file, std::uint64_t offset, std::size_t size) {
        std::vector<std::byte> bytes(size);
        const auto got = file.read_at(offset, bytes);
        EXPECT_TRUE(got) << got.status().message();
        bytes.resize(got ? got.value() : 0);
        return bytes;
    }
    std::vector<std::byte> expected(std::uint64_t offset, std::size_t size) const {
        const std::uint64_t end = std::min<std::uint64_t>(offset + size, content_.size());
        return {content_.begin() + static_cast<std::ptrdiff_t>(std::min(offset, end)),
                content_.begin() + static_cast<std::ptrdiff_t>(end)};
    }

    std::vector<std::byte> content_;
    std::shared_ptr<Source> source_;
    std::shared_ptr<Purse> purse_ = std::make_shared<Purse>(std::uint64_t{1} << 30);
    std::unique_ptr<io::Directory> area_ = io::make_memory_directory("/local/forebay-0/cache");
    task::Engine tasks_{{.threads_max = 2}};
};

}   // namespace forebay::cache
