// A miss of a file that other nodes read as well: what they have comes from them, the rest from the file.
//
// What nobody has said to have comes first, from the file: meanwhile the others get what they have said to have. What a
// peer does not give in time is read from the file. Thread-safety: as Peers. Blocks as the file does, and as Peers.
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
    std::uint64_t peer_asked = 0;     // of what was asked for, from peers
    std::uint64_t peer_ns = 0;        // that took
    std::uint64_t late = 0;           // questions that were not answered in time
};

// How a file is read, and what that takes.
struct PeerReadSource {
    std::function<Result<std::size_t>(std::uint64_t offset, io::MutableBytes into)> read;
    std::function<std::uint64_t(std::uint64_t bytes)> cost_ns;
    std::uint64_t (*steady_ns)() noexcept;
};

// Fills `into` with `whole`, which are whole pieces and this node is about to store; `asked` is the part that somebody
// waits for. Returns how many bytes there are before the first that the file does not have, or the file's error.
[[nodiscard]] Result<std::size_t> read_with_peers(Peers& peers, const PeerReadSource& source, ByteRange whole,
                                                  ByteRange asked, io::MutableBytes into, PeerRead& done);

// Tells that this node is about to read `ahead`, and returns the parts that no other node has said to have. What this
// node does not read after all is to be taken back, unless it had said before to have it (kSelf).
[[nodiscard]] std::vector<Peers::Run> tell_ahead(Peers& peers, ByteRange ahead, std::uint64_t cost_ns, PeerRead& done);

// Of what this node is to prefetch, the parts that it fetches: those whose home it is, and that no other node has said
// to have. Tells that it is about to have them. What was not told in time it fetches all the same.
[[nodiscard]] std::vector<ByteRange> tell_prefetch(Peers& peers, ByteRange wanted, std::uint64_t file_bytes,
                                                   const std::function<std::uint64_t(std::uint64_t bytes)>& cost_ns,
                                                   PeerRead& done);

}   // namespace forebay::cache
