// What the process that drains a file knew of the target when it last gave a sign of life: the bytes in a segment's
// header.
//
// Recovery compares it with what the target is then, so that nobody's newer file is written over (recover/untouched.h).
// docs/log-format.md, "The target's state", is the specification. Pure. Decoders accept hostile input.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>

#include "io/file.h"
#include "io/file_system.h"

namespace forebay::log {

inline constexpr std::size_t kStateOffset = 128;   // in a segment's header; two copies
inline constexpr std::size_t kStateBytes = 320;

// The beginning of what a target write brings to the target.
struct WriteSample {
    std::uint64_t offset = 0, bytes = 0;   // of the whole write; no bytes: no sample
    std::uint32_t hash = 0;                // the lower half of the XXH3-64 of the first `length`
    std::uint16_t length = 0;
    bool ended = false;   // the write has returned
    friend bool operator==(const WriteSample&, const WriteSample&) = default;
};
inline constexpr std::size_t kSampleMax = 4096;
// Up to the next page of the file, so that a write that was cut short has brought all of it, or nothing.
[[nodiscard]] constexpr std::size_t sample_length(std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t to_page = kSampleMax - offset % kSampleMax;
    return static_cast<std::size_t>(bytes < to_page ? bytes : to_page);
}
[[nodiscard]] std::uint32_t sample_hash(std::span<const std::byte> bytes) noexcept;

struct TargetState {
    std::uint64_t serial = 0;   // rises with each change; 0: none
    io::TimesKind kind = io::TimesKind::kUnknown;
    bool busy = false;             // written to since `rest`, or being written to
    bool resized = false;          // its size was, or is being, set since `rest`
    bool others_write = false;     // other processes write to it too, and tell nobody when
    bool changed = false;          // another program has changed it while this process still had bytes to write
    std::uint32_t in_flight = 0;   // writes and changes of size under way
    io::FileState rest;            // when it last came to rest; birth and generation are in the open record
    std::uint64_t size_min = 0, size_max = 0;   // that it may have got since `rest`
    std::uint64_t mounts = 0;                   // of target and log, when the file was opened (mounts_of); 0: unknown
    std::uint64_t begun_ns = 0;                 // CLOCK_REALTIME when the last call that changes it was about to begin
    std::array<WriteSample, 8> samples{};       // of the last writes, the one that began last first
    friend bool operator==(const TargetState&, const TargetState&) = default;
};

// The errno of a failure for which there is none: another program has changed the target.
inline constexpr int kChangedByOthers = EREMCHG;

// Both of them have been mounted all the time if this is the same: what was written before a death is there, synced or
// not.
[[nodiscard]] constexpr std::uint64_t mounts_of(std::uint64_t target, std::uint64_t log) noexcept {
    return target == 0 || log == 0 ? 0 : target * 0x9e3779b97f4a7c15 + log;
}

// Seals it with the segment's use, as records are: what an earlier use has left is none.
[[nodiscard]] std::array<std::byte, kStateBytes> encode(const TargetState& state, std::uint64_t use) noexcept;
[[nodiscard]] std::optional<TargetState> decode_target_state(std::span<const std::byte> copy,
                                                             std::uint64_t use) noexcept;
// Where the state with this number goes in a segment: over the older one of the two.
[[nodiscard]] constexpr std::size_t state_offset(std::uint64_t serial) noexcept {
    return kStateOffset + serial % 2 * kStateBytes;
}
// The newer one of the two that are right; `header` has kSegmentHeaderBytes bytes.
[[nodiscard]] std::optional<TargetState> newest_target_state(std::span<const std::byte> header,
                                                             std::uint64_t use) noexcept;

}   // namespace forebay::log
