// XXH3-64 over stored bytes (the xxHash library); the seed is 0.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <span>

namespace forebay {

[[nodiscard]] inline std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
    return XXH3_64bits(bytes.data(), bytes.size());
}

}   // namespace forebay
