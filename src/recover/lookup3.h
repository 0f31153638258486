// The checksum of HDF5's own structures: Bob Jenkins' lookup3, "hashlittle" with an initial value of 0. Byte by byte,
// so it is the same on every machine. Pure. Source: HDF5 File Format Specification, "Disk Format: Level 0A - Format
// Signature and Superblock"; the hash is in the public domain at https://burtleburtle.net/bob/c/lookup3.c.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace forebay::recover {

[[nodiscard]] constexpr std::uint32_t lookup3(std::span<const std::byte> bytes) noexcept {
    constexpr std::size_t kBlock = 12;
    std::uint32_t a = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()), b = a, c = a;
    // Up to twelve bytes as three little-endian words, padded with zeros.
    const auto add = [&](std::span<const std::byte> block) {
        std::array<std::uint32_t, 3> words{};
        for (std::size_t i = 0; i < block.size(); ++i)
            words[i / 4] += std::to_integer<std::uint32_t>(block[i]) << (8 * (i % 4));
        a += words[0];
        b += words[1];
        c += words[2];
    };
    // A mixing step: `into` loses `from`, is mixed with it, and `from` gains `other`.
    const auto mix = [](std::uint32_t& into, std::uint32_t& from, std::uint32_t other, int turn) {
        into -= from;
        into ^= std::rotl(from, turn);
        from += other;
    };
    const auto finish = [](std::uint32_t& into, std::uint32_t from, int turn) {
        into ^= from;
        into -= std::rotl(from, turn);
    };
    for (; bytes.size() > kBlock; bytes = bytes.subspan(kBlock)) {
        add(bytes.first(kBlock));
        mix(a, c, b, 4);
        mix(b, a, c, 6);
        mix(c, b, a, 8);
        mix(a, c, b, 16);
        mix(b, a, c, 19);
        mix(c, b, a, 4);
    }
    if (bytes.empty()) return c;
    add(bytes);
    finish(c, b, 14);
    finish(a, c, 11);
    finish(b, a, 25);
    finish(c, b, 16);
    finish(a, c, 4);
    finish(b, a, 14);
    finish(c, b, 24);
    return c;
}

}   // namespace forebay::recover
