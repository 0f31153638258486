// The content of a small file in memory, while the program has the file open.
// The first read brings all of it, from the ring of copies (cache/small_files.h) or with one request from the file, and
// then puts it into the ring. Later reads make no system call. The version is compared after the content was read, and
// by reads every `CachePolicy::look_every_ns` or `look_behind_ns`. After a change, in a forked child, and without
// memory reads go to the file. A file opened by a lease (cache/leases.h) has all of its content from the beginning,
// also in a forked child or after its removal. Its source need not be open (io/descriptor.h).
// Thread-safe: reads run concurrently; the first ones wait for the content. Blocks on the file and the staging area.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/cached_file.h"
#include "cache/leases.h"
#include "cache/small_files.h"
#include "extent/range.h"
#include "io/process_lock.h"

namespace forebay::cache {

class SmallCopy {
  public:
    // `leases`, which outlive this, lose the file after a comparison finds another version. Null: it has none.
    SmallCopy(std::shared_ptr<SmallFiles> files, const Version& version, const CachePolicy& policy,
              Leases* leases = nullptr)
        : files_(std::move(files)),
          version_(version),
          policy_(policy),
          leases_(leases),
          forks_(io::forks_so_far()),
          looked_ns_(policy_.steady_ns()) {}
    ~SmallCopy();
    // Null: the ring lacks the content, or there is no memory. May throw std::bad_alloc. Blocks on the staging area.
    [[nodiscard]] static std::unique_ptr<SmallCopy> by_lease(std::shared_ptr<SmallFiles> files, const Lease& lease,
                                                             const CachePolicy& policy, Leases& leases);
    SmallCopy(const SmallCopy&) = delete;
    SmallCopy& operator=(const SmallCopy&) = delete;

    // Returns the bytes read, as io::File::read_at. None: the caller reads the file.
    [[nodiscard]] std::optional<std::size_t> read(io::File& source, CacheCounters& counters, std::uint64_t offset,
                                                  io::MutableBytes into);

    // Compares the version at a reopen. After a change reads go to the file.
    void look_again(io::File& source, CacheCounters& counters);

    // The content's size, for an unchanged file that was opened by a lease. None: ask the file.
    [[nodiscard]] std::optional<std::uint64_t> size() const noexcept {
        return by_lease_ && state_.load(std::memory_order_acquire) == State::kHere ? std::optional(version_.size)
                                                                                   : std::nullopt;
    }

  private:
    enum class State : std::uint8_t { kNone, kHere, kPassed };
    [[nodiscard]] bool is_current(io::File& source, CacheCounters& counters);
    [[nodiscard]] bool take_budget() noexcept;
    void bring(io::File& source, CacheCounters& counters) noexcept;
    [[nodiscard]] bool fetch(io::File& source, CacheCounters& counters);
    [[nodiscard]] bool is_version(const io::FileState& state) const noexcept;

    const std::shared_ptr<SmallFiles> files_;
    const Version version_;
    const CachePolicy policy_;
    Leases* const leases_;
    const std::uint64_t forks_;
    bool by_lease_ = false;
    std::mutex bringing_;   // guards content_ until the state is kHere
    std::vector<std::byte> content_;
    std::uint64_t budget_ = 0;   // of the process, for the content
    std::atomic<State> state_{State::kNone};
    std::atomic<std::uint64_t> looked_ns_;
};

// The key in tables of open files: without a descriptor the inode number may be reused, so it has no device and inode.
// A search by device and inode has to compare these files' own io::File::identity, too.
[[nodiscard]] inline io::Identity identity_of_lease(const Version& version) noexcept {
    return {kOffsetMax, small_file_key(version)};
}
[[nodiscard]] inline bool is_of_lease(const io::Identity& key) noexcept { return key.device == kOffsetMax; }

struct LeasedFile {
    std::string path;
    Lease lease;
    std::unique_ptr<SmallCopy> copy;
};

}   // namespace forebay::cache
