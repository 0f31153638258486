// The target's state as the draining process last noted it, in the header of a log's segments.
// Recovery compares the target with it, and so never overwrites a newer file (recover/untouched.h). docs/log-format.md,
// "The target's state", is the specification. Pure. Decoders accept hostile input.
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

// A hash of the first bytes of a target write.
struct WriteSample {
    std::uint64_t offset = 0, bytes = 0;   // of the whole write; 0 bytes: no sample
    std::uint32_t hash = 0;                // lower half of the XXH3-64 of the first `length` bytes
    std::uint16_t length = 0;
    bool ended = false;   // the write has returned
    friend bool operator==(const WriteSample&, const WriteSample&) = default;
};
inline constexpr std::size_t kSampleMax = 4096;
// The sample ends at a page of the file, so a write that was cut short brought all of it or nothing.
[[nodiscard]] constexpr std::size_t sample_length(std::uint64_t offset, std::uint64_t bytes) noexcept {
    const std::uint64_t to_page = kSampleMax - offset % kSampleMax;
    return static_cast<std::size_t>(bytes < to_page ? bytes : to_page);
}
[[nodiscard]] std::uint32_t sample_hash(std::span<const std::byte> bytes) noexcept;

struct TargetState {
    std::uint64_t serial = 0;   // rises with each change; 0: none
    io::TimesKind kind = io::TimesKind::kUnknown;
    bool busy = false;             // written to since `rest`, or being written to
    bool resized = false;          // its size was set since `rest`, or is being set
    bool others_write = false;     // other processes write to it too, without notice
    bool changed = false;          // another program changed it before the drain was complete
    std::uint32_t in_flight = 0;   // writes and changes of size under way
    io::FileState rest;            // last seen with no write in flight; birth and generation are in the open record
    std::uint64_t size_min = 0, size_max = 0;   // sizes that it may have had since `rest`
    std::uint64_t mounts = 0;                   // mounts_of target and log at the open; 0: unknown
    std::uint64_t begun_ns = 0;                 // CLOCK_REALTIME before the last call that changes the target
    std::array<WriteSample, 8> samples{};       // of the last writes, newest first
    friend bool operator==(const TargetState&, const TargetState&) = default;
};

// The errno that stands for "another program has changed the target".
inline constexpr int kChangedByOthers = EREMCHG;

// Identifies the mounts of target and log. If it is unchanged, neither was unmounted, so earlier writes are there,
// synced or not.
[[nodiscard]] constexpr std::uint64_t mounts_of(std::uint64_t target, std::uint64_t log) noexcept {
    return target == 0 || log == 0 ? 0 : target * 0x9e3779b97f4a7c15 + log;
}

// Seals the state with the segment's use, so that a state from an earlier use is invalid.
[[nodiscard]] std::array<std::byte, kStateBytes> encode(const TargetState& state, std::uint64_t use) noexcept;
[[nodiscard]] std::optional<TargetState> decode_target_state(std::span<const std::byte> copy,
                                                             std::uint64_t use) noexcept;
// The state's offset in a segment. Two places alternate, so a new state overwrites the older one.
[[nodiscard]] constexpr std::size_t state_offset(std::uint64_t serial) noexcept {
    return kStateOffset + serial % 2 * kStateBytes;
}
// The newer valid state in `header`, which has kSegmentHeaderBytes bytes.
[[nodiscard]] std::optional<TargetState> newest_target_state(std::span<const std::byte> header,
                                                             std::uint64_t use) noexcept;

}   // namespace forebay::log
