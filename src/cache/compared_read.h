// Reads blocks of a replica, and compares them with the checksums in its map.
// A device may lose bytes after it has taken them: the kernel returns from a write, fails to write the page back later,
// and drops it. Reads of that page then return zeros or older bytes, and no call tells the reader. An error of a later
// sync goes to one descriptor, and is gone with the inode; so only the checksum is proof, in any process and at any
// time. Invariant: `read` returns no byte of a block that differs from its checksum. The caller has seen the blocks'
// bits before, and compares their generations after. Files in memory have no device: they are read without a
// comparison. Thread-safe. Takes no memory but 16 KiB of the stack. Blocks on the staging area.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "cache/presence.h"
#include "cache/replica_bytes.h"
#include "io/file.h"

namespace forebay::cache {

struct ComparedBytes {
    std::size_t bytes = 0;   // from the requested offset on
    bool differs = false;    // the block after these bytes differs from its checksum
};

class ComparedRead {
  public:
    ComparedRead(ReplicaBytes& replica, const Presence& map) noexcept
        : replica_(replica), map_(map), size_(map.header().source.size) {}

    // Reads present blocks. Without a difference it returns fewer bytes only if the replica ends before.
    [[nodiscard]] Result<ComparedBytes> read(std::uint64_t offset, io::MutableBytes into);

  private:
    [[nodiscard]] Result<ComparedBytes> read_whole(std::uint64_t offset, io::MutableBytes into);
    [[nodiscard]] Result<ComparedBytes> read_parts(std::uint64_t offset, io::MutableBytes into);
    [[nodiscard]] std::size_t same_bytes(std::uint64_t offset, io::Bytes blocks) const noexcept;

    ReplicaBytes& replica_;
    const Presence& map_;
    const std::uint64_t size_;   // of the source
};

}   // namespace forebay::cache
