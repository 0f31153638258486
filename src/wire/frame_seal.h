// A seal on each frame of one direction, which reveals each change, repetition, loss or addition on the way: Poly1305
// over header and payload. A frame's key is the first 32 bytes of ChaCha20 with the direction's key, and the frame's
// number as the nonce. Frames are not encrypted. libsodium does the arithmetic; the first sealed connection loads it.
// Source: RFC 8439, sections 2.5 and 2.6. Thread-safety: one thread at a time. No call blocks.
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
    // Returns kUnavailable if this machine lacks libsodium.
    [[nodiscard]] static Result<FrameSeal> with(const SealKey& key);
    // Returns the seal of the next frame, whose bytes are `pieces`, in order.
    [[nodiscard]] Seal next(std::span<const io::Bytes> pieces) noexcept;
    [[nodiscard]] bool fits(std::span<const io::Bytes> pieces, const Seal& seal) noexcept;

  private:
    explicit FrameSeal(const SealKey& key) noexcept : key_(key) {}
    SealKey key_;
    std::uint64_t frames_ = 0;
};

// Derives a key per direction from the shared one and random bytes of both sides (BLAKE2b, RFC 7693). kUnavailable: no
// libsodium on this machine.
struct SealKeys {
    SealKey to_server, to_client;
};
[[nodiscard]] Result<SealKeys> derive_keys(const SealKey& shared, const SealKey& of_client, const SealKey& of_server);

[[nodiscard]] Result<SealKey> new_secret();

}   // namespace forebay::wire
