// Explicit little-endian encoding of fixed-width integers, for all stored data.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace forebay {

template <std::unsigned_integral T>
[[nodiscard]] constexpr T little_endian(T value) noexcept {
    if constexpr (std::endian::native == std::endian::little) return value;
    T swapped = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
        swapped = static_cast<T>(swapped | (((value >> (8 * i)) & 0xFF) << (8 * (sizeof(T) - 1 - i))));
    return swapped;
}

template <std::unsigned_integral T>
void store_le(std::byte* at, T value) noexcept {
    value = little_endian(value);
    std::memcpy(at, &value, sizeof value);
}

template <std::unsigned_integral T>
[[nodiscard]] T load_le(const std::byte* at) noexcept {
    T value;
    std::memcpy(&value, at, sizeof value);
    return little_endian(value);
}

}   // namespace forebay
