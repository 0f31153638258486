// A seal on each frame of one direction: nobody on the way can change, repeat, drop or add one unnoticed.
//
// The seal is Poly1305 over header and payload, with a key of its own for each frame: the first 32 bytes of ChaCha20
// with the direction's key and the frame's number as the nonce. Frames are not encrypted. libsodium does the
// arithmetic; it is loaded when the first connection is sealed. Source: RFC 8439, sections 2.5 and 2.6.
// Thread-safety: one thread at a time. Nothing blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "io/file.h"

namespace forebay::wire {

using SealKey = std::array<std::byte, 32>;
using Seal = std::array<std::byte, 16>;

class FrameSeal {
  public:
    // kUnavailable: this machine does not have libsodium.
    [[nodiscard]] static Result<FrameSeal> with(const SealKey& key);
    // Of the next frame, whose bytes are `pieces`, one after the other.
    [[nodiscard]] Seal next(std::span<const io::Bytes> pieces) noexcept;
    // Whether `seal` is that of the next frame.
    [[nodiscard]] bool fits(std::span<const io::Bytes> pieces, const Seal& seal) noexcept;

  private:
    explicit FrameSeal(const SealKey& key) noexcept : key_(key) {}
    SealKey key_;
    std::uint64_t frames_ = 0;
};

// A key for each direction, out of the key that both sides have and random bytes of each (BLAKE2b, RFC 7693).
// kUnavailable: as above.
struct SealKeys {
    SealKey to_server, to_client;
};
[[nodiscard]] Result<SealKeys> derive_keys(const SealKey& shared, const SealKey& of_client, const SealKey& of_server);

// Random bytes that nobody can guess.
[[nodiscard]] Result<SealKey> new_secret();

}   // namespace forebay::wire
