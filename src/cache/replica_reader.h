// Serves the reads of one file from all that may have the bytes: the replica, the ahead buffer, peers, the source.
// Invariant: all bytes of one read are of one version. Thread-safe, without a lock of its own. A hit takes no lock and
// allocates no memory, unless the file has peers or a known order. Blocks as CachedFile does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cache/cached_file_state.h"
#include "cache/prefetcher.h"
#include "cache/source_fetcher.h"
#include "cache/unit_replacement.h"
#include "io/file.h"

namespace forebay::cache {

class ReplicaReader {
  public:
    ReplicaReader(std::shared_ptr<CachedFileState> file, std::shared_ptr<SourceFetcher> fetcher,
                  std::shared_ptr<UnitReplacement> replacement, std::shared_ptr<Prefetcher> prefetcher) noexcept;

    [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, io::MutableBytes into);
    // Reads bytes of the replica's version only. kUnavailable: the file changed.
    [[nodiscard]] Result<std::size_t> read_version(std::uint64_t offset, io::MutableBytes into);

  private:
    [[nodiscard]] Result<std::size_t> read_known(std::uint64_t offset, io::MutableBytes into, ReadOrigin& from);
    [[nodiscard]] std::size_t read_replica(std::uint64_t offset, io::MutableBytes into);
    [[nodiscard]] std::size_t read_buffer(std::uint64_t offset, io::MutableBytes into) noexcept;
    [[nodiscard]] Result<std::size_t> read_forked(std::uint64_t offset, io::MutableBytes into);
    // Returns false if the version has to be compared and is unknown.
    [[nodiscard]] bool look_if_due();

    const std::shared_ptr<CachedFileState> file_;
    const std::shared_ptr<SourceFetcher> fetcher_;
    const std::shared_ptr<UnitReplacement> replacement_;
    const std::shared_ptr<Prefetcher> prefetcher_;
};

}   // namespace forebay::cache
