// The replica of an open file, with the parts that bring bytes from it and into it.
//
//   CachedFileState   the source, the replica, and what limits their use   cache/cached_file_state.h
//   SourceFetcher     misses, stores, and read-ahead                       cache/source_fetcher.h
//   UnitReplacement   bytes to store in the place of others                cache/unit_replacement.h
//   Prefetcher        ranges that the program named                        cache/prefetcher.h
//   ReplicaReader     the program's reads                                  cache/replica_reader.h
//
// A cached file owns it, from the moment when the file has a replica. Tasks share the ownership of the parts, not of
// this. Thread-safe. In a forked child it stores and prefetches nothing. Blocks as its parts; `look_again` on the file
// server; `await_stored` and `close` on tasks.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cache/cached_file_state.h"
#include "cache/peers.h"
#include "cache/prefetcher.h"
#include "cache/replica.h"
#include "cache/replica_reader.h"
#include "io/file.h"
#include "io/guarded_access.h"

namespace forebay::cache {

class AttachedReplica {
  public:
    explicit AttachedReplica(std::shared_ptr<CachedFileState> file);

    [[nodiscard]] ReplicaReader& reader() noexcept { return reader_; }
    [[nodiscard]] Prefetcher& prefetcher() noexcept { return *prefetcher_; }
    [[nodiscard]] const std::shared_ptr<Replica>& replica() const noexcept { return file_->replica; }
    // The replica, to keep after the close. Null if the file system's versions are not sure.
    [[nodiscard]] std::shared_ptr<Replica> replica_to_keep() const noexcept;
    // The replica for readers that bypass this, even after the close. kUnsupported: unsure versions, several devices.
    struct Exposed {
        std::shared_ptr<Replica> replica;
        std::unique_ptr<io::Mapping> bytes;
        std::unique_ptr<io::Replaceable> guard;   // a faulting page reads as zeros, which fail its checksum
    };
    [[nodiscard]] Result<Exposed> expose() const;

    // Bytes, in whole blocks, fetched ahead and not read by this process.
    [[nodiscard]] std::uint64_t unread_bytes() const noexcept { return file_->unread.bytes(); }
    // Compares the version. After a change, and until the file server answers, reads go to the source.
    void look_again() { (void)file_->version.look_again(); }

    // Adds the nodes that read the file together. False: it has peers. `peers` is not null.
    [[nodiscard]] bool join(std::shared_ptr<Peers> peers) noexcept;
    void part() noexcept { file_->peers.part(); }
    [[nodiscard]] bool has_peers() const noexcept { return file_->peers.has_servers() || file_->peers.has_joined(); }

    void await_stored() { file_->budget.await(); }
    // Stops reading ahead; stores fetched bytes, for at most `CachePolicy::close_max`. No effect in a forked child.
    void close();

  private:
    const std::shared_ptr<CachedFileState> file_;
    const std::shared_ptr<SourceFetcher> fetcher_;
    const std::shared_ptr<UnitReplacement> replacement_;
    const std::shared_ptr<Prefetcher> prefetcher_;
    ReplicaReader reader_;
};

}   // namespace forebay::cache
