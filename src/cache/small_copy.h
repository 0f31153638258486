// The content of a small file in memory, for as long as the program has the file open.
//
// The first read brings all of it: from the ring of copies (cache/small_files.h), or with one request from the file.
// Reads that follow cost no system call. What came from the file goes into the ring, so the next open finds it there.
// The version is compared after the content was read, and again by reads once `CachePolicy::look_every_ns` or
// `look_behind_ns` has passed. After a change, in a forked child, and without memory the file itself is read.
//
// Thread-safety: any thread may read, concurrently; the first reads wait for the one that brings the content. Blocks on
// the file and on the staging area.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cache/cached_file.h"
#include "cache/small_files.h"
#include "io/process_lock.h"

namespace forebay::cache {

class SmallCopy {
  public:
    SmallCopy(std::shared_ptr<SmallFiles> files, const Version& version, const CachePolicy& policy)
        : files_(std::move(files)),
          version_(version),
          policy_(policy),
          forks_(io::forks_so_far()),
          looked_ns_(policy_.steady_ns()) {}
    ~SmallCopy();
    SmallCopy(const SmallCopy&) = delete;
    SmallCopy& operator=(const SmallCopy&) = delete;

    // Returns the bytes read, as io::File::read_at does. No value: the caller reads the file.
    [[nodiscard]] std::optional<std::size_t> read(io::File& source, CacheCounters& counters, std::uint64_t offset,
                                                  io::MutableBytes into);

    // Compares the version, as the file is opened again. After a change reads go to the file.
    void look_again(io::File& source, CacheCounters& counters);

  private:
    enum class State : std::uint8_t { kNone, kHere, kPassed };
    [[nodiscard]] bool is_current(io::File& source, CacheCounters& counters);
    void bring(io::File& source, CacheCounters& counters) noexcept;
    [[nodiscard]] bool fetch(io::File& source, CacheCounters& counters);
    [[nodiscard]] bool is_version_of(io::File& source, io::File::Ask ask) const;

    const std::shared_ptr<SmallFiles> files_;
    const Version version_;
    const CachePolicy policy_;
    const std::uint64_t forks_;
    std::mutex bringing_;   // guards content_ until the state is kHere
    std::vector<std::byte> content_;
    std::uint64_t budget_ = 0;   // of the process, for the content
    std::atomic<State> state_{State::kNone};
    std::atomic<std::uint64_t> looked_ns_;
};

}   // namespace forebay::cache
