#include "cache/peer_view.h"

#include <algorithm>

namespace forebay::cache {

bool fit(io::Bytes bytes, std::span<const std::uint32_t> checksums) noexcept {
    for (std::size_t block = 0; block < checksums.size(); ++block) {
        const std::size_t at = block * kBlockBytes;
        if (at >= bytes.size()) return false;
        const io::Bytes part = bytes.subspan(at, std::min<std::size_t>(kBlockBytes, bytes.size() - at));
        if (block_checksum(part) != checksums[block]) return false;
    }
    return checksums.size() * kBlockBytes >= bytes.size();
}

}   // namespace forebay::cache
