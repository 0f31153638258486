// XXH3-64 over stored bytes (the xxHash library); the seed is 0.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <span>

#include "base/crash_safety.h"

namespace forebay {

[[nodiscard]] inline std::uint64_t checksum(std::span<const std::byte> bytes) noexcept {
    return kCrashSafety ? XXH3_64bits(bytes.data(), bytes.size()) : 0;
}

}   // namespace forebay
