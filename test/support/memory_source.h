// Files in memory as sources of the read cache. The test sets their times.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/forwarding_file.h"
#include "io/memory_file.h"

namespace forebay::test {

class MemorySource : public io::ForwardingFile {
  public:
    explicit MemorySource(const std::vector<std::byte>& content)
        : ForwardingFile(io::make_memory_file("/scratch/data.h5")) {
        EXPECT_TRUE(file().write_at(0, content));
        known_ = {.size = content.size(), .modified_ns = 100, .changed_ns = 100};
    }
    Result<io::FileState> state(Ask) override { return known_; }

  protected:
    io::FileState known_;
};

// Counts reads, fails on demand, and has a new version after each change.
class CountedSource final : public MemorySource {
  public:
    using MemorySource::MemorySource;
    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
        if (failing_) return Status::from_errno(EIO, "read");
        const auto got = file().read_at(offset, into);
        bytes_ += got.value();
        return got;
    }
    Result<io::FileState> state(Ask) override {
        ++asked_;
        if (const int error = gone_.load(); error != 0) return Status::from_errno(error, "stat");
        io::FileState state = known_;
        state.modified_ns += changes_;
        return state;
    }

    std::atomic<std::uint64_t> bytes_{0}, changes_{0}, asked_{0};
    std::atomic<bool> failing_{false};
    std::atomic<int> gone_{0};   // the error of opening it by name
};

}   // namespace forebay::test
