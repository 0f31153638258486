// The small files that a process may open again without asking their file system: docs/read-cache.md, "Attribute
// leases".
//
// A lease says which version a path led to when this process compared it last. It is valid for so long as option
// `revalidate` says, for the effective user and group that the process had then. The table is bounded; the leases that
// were used longest ago go first.
//
// Thread-safety: all calls from any thread. In a forked child the table is empty, and no call waits for the parent's
// lock. Nothing blocks.
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

    // `lasts_ns`: how long a lease is valid. kOffsetMax: until it is dropped; 0: there are none.
    explicit Leases(std::uint64_t lasts_ns, std::uint64_t bytes_max = kBytesMax);

    [[nodiscard]] bool enabled() const noexcept { return lasts_ns_ > 0; }
    // The valid lease of the path.
    [[nodiscard]] std::optional<Lease> find(const std::string& path, std::uint64_t now_ns);
    // Replaces the path's earlier lease, and drops those of other versions of the file under its other names. May throw
    // std::bad_alloc; the path then has no lease.
    void keep(const std::string& path, const Lease& lease);
    void drop(const std::string& path) noexcept;
    // Drops the leases of all paths that lead to the file.
    void drop(const io::Identity& identity) noexcept;

    // For tests.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    struct Kept {
        std::string path;
        Lease lease;
    };
    using Place = std::list<Kept>::iterator;
    // Of one lease: the list's node and those of both maps.
    [[nodiscard]] static std::uint64_t bytes_of(const Kept& kept) noexcept {
        return sizeof(Kept) + kept.path.capacity() + 160;
    }
    [[nodiscard]] bool usable() const noexcept;
    void erase(Place place) noexcept;
    void drop_other_versions(const Version& version) noexcept;
    void empty_for_another_user() noexcept;

    const std::uint64_t lasts_ns_, bytes_max_, forks_;
    std::mutex mutex_;        // guards what follows
    std::list<Kept> order_;   // the last used one first
    std::unordered_map<std::string_view, Place> by_path_;
    std::unordered_multimap<std::uint64_t, Place> by_inode_;
    std::uint64_t bytes_ = 0;
    uid_t user_;
    gid_t group_;
};

}   // namespace forebay::cache
