// Returns XXH3-64 (the xxHash library) of stored bytes, with seed 0.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <span>

namespace forebay {

[[nodiscard]] inline std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
    return XXH3_64bits(bytes.data(), bytes.size());
}

}   // namespace forebay
