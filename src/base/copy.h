#pragma once

#include <cstddef>

namespace forebay {

// Works like memcpy, but bypasses the CPU cache from 256 KiB on, which saves reading the destination first. Measured
// with blocks of 1 to 64 MiB into a mapped file: 1.5 times the bandwidth of the C library's memcpy, which bypasses the
// cache only for much larger blocks. The ranges must not overlap.
void copy_large(std::byte* to, const std::byte* from, std::size_t size_bytes) noexcept;

}   // namespace forebay
