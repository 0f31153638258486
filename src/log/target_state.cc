#include "log/target_state.h"

#include <xxhash.h>

#include "base/bytes.h"

namespace forebay::log {

namespace {

constexpr std::size_t kChecksumAt = kStateBytes - 8, kSamplesAt = 88, kSampleBytes = 24;
enum Flag : std::uint8_t { kBusy = 1, kResized = 2, kOthersWrite = 4, kChanged = 8 };
static_assert(kSamplesAt + std::tuple_size_v<decltype(TargetState::samples)> * kSampleBytes <= kChecksumAt);

}   // namespace

std::uint32_t sample_hash(std::span<const std::byte> bytes) noexcept {
    return static_cast<std::uint32_t>(XXH3_64bits(bytes.data(), bytes.size()));
}

std::array<std::byte, kStateBytes> encode(const TargetState& state, std::uint64_t use) noexcept {
    std::array<std::byte, kStateBytes> bytes{};
    std::byte* const p = bytes.data();
    store_le(p, state.serial);
    p[8] = static_cast<std::byte>(state.kind);
    p[9] = static_cast<std::byte>((state.busy ? kBusy : 0) | (state.resized ? kResized : 0) |
                                  (state.others_write ? kOthersWrite : 0) | (state.changed ? kChanged : 0));
    store_le(p + 12, state.in_flight);
    store_le(p + 16, state.rest.size);
    store_le(p + 24, state.rest.modified_ns);
    store_le(p + 32, state.rest.changed_ns);
    store_le(p + 40, state.rest.mode);
    store_le(p + 44, state.rest.links);
    store_le(p + 48, state.rest.owner);
    store_le(p + 52, state.rest.group);
    store_le(p + 56, state.size_min);
    store_le(p + 64, state.size_max);
    store_le(p + 72, state.begun_ns);
    store_le(p + 80, state.mounts);
    std::byte* at = p + kSamplesAt;
    for (const WriteSample& sample : state.samples) {
        store_le(at, sample.offset);
        store_le(at + 8, sample.bytes);
        store_le(at + 16, sample.hash);
        store_le(at + 20, sample.length);
        at[22] = static_cast<std::byte>(sample.ended);
        at += kSampleBytes;
    }
    store_le(p + kChecksumAt, static_cast<std::uint64_t>(XXH3_64bits_withSeed(p, kChecksumAt, use)));
    return bytes;
}

std::optional<TargetState> decode_target_state(std::span<const std::byte> copy, std::uint64_t use) noexcept {
    if (copy.size() < kStateBytes) return std::nullopt;
    const std::byte* const p = copy.data();
    if (load_le<std::uint64_t>(p + kChecksumAt) != XXH3_64bits_withSeed(p, kChecksumAt, use)) return std::nullopt;
    const auto kind = static_cast<std::uint8_t>(p[8]), flags = static_cast<std::uint8_t>(p[9]);
    if (kind > static_cast<std::uint8_t>(io::TimesKind::kLazy)) return std::nullopt;
    TargetState state;
    state.serial = load_le<std::uint64_t>(p);
    state.kind = static_cast<io::TimesKind>(kind);
    state.busy = (flags & kBusy) != 0;
    state.resized = (flags & kResized) != 0;
    state.others_write = (flags & kOthersWrite) != 0;
    state.changed = (flags & kChanged) != 0;
    state.in_flight = load_le<std::uint32_t>(p + 12);
    state.rest.size = load_le<std::uint64_t>(p + 16);
    state.rest.modified_ns = load_le<std::uint64_t>(p + 24);
    state.rest.changed_ns = load_le<std::uint64_t>(p + 32);
    state.rest.mode = load_le<std::uint32_t>(p + 40);
    state.rest.links = load_le<std::uint32_t>(p + 44);
    state.rest.owner = load_le<std::uint32_t>(p + 48);
    state.rest.group = load_le<std::uint32_t>(p + 52);
    state.size_min = load_le<std::uint64_t>(p + 56);
    state.size_max = load_le<std::uint64_t>(p + 64);
    state.begun_ns = load_le<std::uint64_t>(p + 72);
    state.mounts = load_le<std::uint64_t>(p + 80);
    const std::byte* at = p + kSamplesAt;
    for (WriteSample& sample : state.samples) {
        sample.offset = load_le<std::uint64_t>(at);
        sample.bytes = load_le<std::uint64_t>(at + 8);
        sample.hash = load_le<std::uint32_t>(at + 16);
        sample.length = load_le<std::uint16_t>(at + 20);
        sample.ended = at[22] != std::byte{0};
        if (sample.length > kSampleMax || sample.length > sample.bytes || sample.bytes > UINT64_MAX - sample.offset)
            return std::nullopt;
        at += kSampleBytes;
    }
    return state;
}

std::optional<TargetState> newest_target_state(std::span<const std::byte> header, std::uint64_t use) noexcept {
    if (header.size() < kStateOffset + 2 * kStateBytes) return std::nullopt;
    const auto one = decode_target_state(header.subspan(state_offset(0), kStateBytes), use),
               other = decode_target_state(header.subspan(state_offset(1), kStateBytes), use);
    if (!one || !other) return one ? one : other;
    return one->serial > other->serial ? one : other;
}

}   // namespace forebay::log
