// Attribute leases: small files that a process may reopen without asking their file system (docs/read-cache.md).
// A lease is the version of a path at this process's last comparison, valid for the time in option `revalidate` and for
// the effective user and group of then. The table is bounded and drops the least recently used leases. Thread-safe. In
// a forked child it is empty, and no call waits for the parent's lock. Nothing blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cache/presence.h"
#include "io/file.h"

namespace forebay::cache {

struct Lease {
    Version version;
    io::FileTraits traits;
    std::uint64_t compared_ns = 0;   // CLOCK_MONOTONIC
};

class Leases {
  public:
    static constexpr std::uint64_t kBytesMax = 64 << 20;   // about 150,000 leases

    // `lasts_ns` is the validity of a lease. kOffsetMax: until it is dropped; 0: there are none.
    explicit Leases(std::uint64_t lasts_ns, std::uint64_t bytes_max = kBytesMax);

    [[nodiscard]] bool enabled() const noexcept { return lasts_ns_ > 0; }
    [[nodiscard]] std::optional<Lease> find(const std::string& path, std::uint64_t now_ns);
    // Also drops leases of the file's other versions. After std::bad_alloc the path has no lease.
    void keep(const std::string& path, const Lease& lease);
    void drop(const std::string& path) noexcept;
    void drop(const io::Identity& identity) noexcept;

    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    struct Kept {
        std::string path;
        Lease lease;
    };
    using Place = std::list<Kept>::iterator;
    // With the list's node and those of both maps.
    [[nodiscard]] static std::uint64_t bytes_of(const Kept& kept) noexcept {
        return sizeof(Kept) + kept.path.capacity() + 160;
    }
    [[nodiscard]] bool usable() const noexcept;
    void erase(Place place) noexcept;
    void drop_other_versions(const Version& version) noexcept;
    void empty_for_another_user() noexcept;

    const std::uint64_t lasts_ns_, bytes_max_, forks_;
    std::mutex mutex_;        // guards the members below
    std::list<Kept> order_;   // most recently used first
    std::unordered_map<std::string_view, Place> by_path_;
    std::unordered_multimap<std::uint64_t, Place> by_inode_;
    std::uint64_t bytes_ = 0;
    uid_t user_;
    gid_t group_;
};

}   // namespace forebay::cache
