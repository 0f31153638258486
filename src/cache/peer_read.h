// A miss of a file that other nodes read too. It first reads the parts that no peer announced, while the peers get
// theirs. Parts that a peer does not give in time come from the file. Thread-safety and blocking: as Peers.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "cache/peers.h"
#include "extent/range.h"
#include "io/file.h"

namespace forebay::cache {

struct PeerRead {
    std::uint64_t source_bytes = 0;   // of the range, read from the file
    std::uint64_t peer_asked = 0;     // of the requested part, from peers
    std::uint64_t peer_ns = 0;        // time of these
    std::uint64_t late = 0;           // questions without an answer in time
};

struct PeerReadSource {
    std::function<Result<std::size_t>(std::uint64_t offset, io::MutableBytes into)> read;
    std::function<std::uint64_t(std::uint64_t bytes)> cost_ns;
    std::uint64_t (*steady_ns)() noexcept;
};

// `whole`: whole pieces that this node is about to store; `asked`: the requested part. Returns the bytes before the
// file's end, or its error.
[[nodiscard]] Result<std::size_t> read_with_peers(Peers& peers, const PeerReadSource& source, ByteRange whole,
                                                  ByteRange asked, io::MutableBytes into, PeerRead& done);

// Announces `ahead`, and returns the parts that no other node announced. The caller takes back parts that it does not
// read, unless it had announced them before (kSelf).
[[nodiscard]] std::vector<Peers::Run> tell_ahead(Peers& peers, ByteRange ahead, std::uint64_t cost_ns, PeerRead& done);

// Announces and returns the parts of `wanted` whose home is here and that no other node announced (in time).
[[nodiscard]] std::vector<ByteRange> tell_prefetch(Peers& peers, ByteRange wanted, std::uint64_t file_bytes,
                                                   const std::function<std::uint64_t(std::uint64_t bytes)>& cost_ns,
                                                   PeerRead& done);

}   // namespace forebay::cache
