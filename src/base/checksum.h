// Returns XXH3-64 (the xxHash library) of stored bytes, with seed 0.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

extern "C" unsigned long long forebay_xxh3(const void* bytes, std::size_t size);   // cmake/linked_in/xxhash.c

namespace forebay {

[[nodiscard]] inline std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
    return forebay_xxh3(bytes.data(), bytes.size());
}

}   // namespace forebay
