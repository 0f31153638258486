#include "log/target_witness.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace forebay::log {

void TargetWitness::resume(const TargetState& state) noexcept {
    state_ = state;
    state_.in_flight = 0;   // their writer has died
}

void TargetWitness::open(io::TimesKind kind, const io::FileState& now, std::uint64_t mounts) noexcept {
    const std::uint64_t serial = state_.serial;
    state_ = {};
    state_.serial = serial + 1;
    state_.kind = kind;
    state_.mounts = mounts;
    state_.rest = now;
    state_.size_min = state_.size_max = now.size;
}

void TargetWitness::give_up() noexcept {
    const std::uint64_t serial = state_.serial;
    state_ = {};
    state_.serial = serial + 1;
}

void TargetWitness::change() noexcept {
    ++state_.serial;
    state_.busy = true;
    ++state_.in_flight;
    state_.begun_ns = realtime_ns();
}

ByteRange TargetWitness::to_be_seen_before(ByteRange range) const noexcept {
    const std::uint64_t size = state_.rest.size;
    if (state_.kind != io::TimesKind::kExact || state_.others_write || state_.in_flight != 0 || size == 0 ||
        !std::ranges::all_of(state_.samples, [](const WriteSample& each) { return each.length == 0; }))
        return {};
    const std::uint64_t begin = range.begin < size ? range.begin : (size - 1) / kSampleMax * kSampleMax;
    return {begin, std::min(size, begin + sample_length(begin, kSampleMax))};
}

void TargetWitness::saw(std::uint64_t offset, std::span<const std::byte> sample, std::uint64_t serial) noexcept {
    if (sample.empty() || serial != state_.serial) return;
    add_sample({offset, sample.size(), sample_hash(sample), static_cast<std::uint16_t>(sample.size()), /*ended=*/true});
}

void TargetWitness::add_sample(const WriteSample& sample) noexcept {
    std::shift_right(state_.samples.begin(), state_.samples.end(), 1);
    state_.samples.front() = sample;
}

void TargetWitness::begin_write(ByteRange range, std::span<const std::byte> sample) noexcept {
    change();
    state_.size_max = std::max(state_.size_max, range.end);
    // An empty sample proves nothing about the write, but the entry tells what the write may have overwritten.
    add_sample({range.begin, range.size(), sample_hash(sample), static_cast<std::uint16_t>(sample.size()),
                /*ended=*/false});
}

void TargetWitness::go_on() noexcept {
    ++state_.serial;
    state_.begun_ns = realtime_ns();
}

void TargetWitness::end_write(ByteRange range, bool written) noexcept {
    ++state_.serial;
    if (state_.in_flight > 0) --state_.in_flight;
    for (WriteSample& sample : state_.samples) {
        if (sample.ended || sample.offset != range.begin || sample.bytes != range.size()) continue;
        sample.ended = true;
        break;
    }
    if (!written) forget_samples({0, kOffsetMax});
    else if (!state_.resized) state_.size_min = std::max(state_.size_min, range.end);
}

// Bytes that were cut off later are no sign of a write.
void TargetWitness::forget_samples(ByteRange range) noexcept {
    for (WriteSample& sample : state_.samples)
        if (!range.intersect({sample.offset, sample.offset + sample.length}).empty()) sample.length = 0;
}

void TargetWitness::begin_resize(std::uint64_t size) noexcept {
    change();
    state_.resized = true;
    resizing_to_ = size;
    state_.size_min = std::min(state_.size_min, size);
    state_.size_max = std::max(state_.size_max, size);
    forget_samples({size, kOffsetMax});
}

void TargetWitness::begin_punch(ByteRange range) noexcept {
    change();
    state_.resized = true;
    resizing_to_.reset();
    forget_samples(range);
}

void TargetWitness::end_resize(bool done) noexcept {
    ++state_.serial;
    if (state_.in_flight > 0) --state_.in_flight;
    const std::optional<std::uint64_t> size = std::exchange(resizing_to_, std::nullopt);
    if (!done) forget_samples({0, kOffsetMax});
    else if (size) state_.size_min = *size;   // writes in flight can only make it longer
}

void TargetWitness::note_external_writers() noexcept {
    if (state_.others_write) return;
    ++state_.serial;
    state_.others_write = true;
}

void TargetWitness::others_changed() noexcept {
    ++state_.serial;
    state_.changed = true;
}

bool TargetWitness::to_be_looked_at() const noexcept {
    return state_.busy && !state_.changed && state_.in_flight == 0 && !state_.others_write &&
           (state_.kind == io::TimesKind::kExact || state_.kind == io::TimesKind::kServed);
}

bool TargetWitness::rested(const io::FileState& now, std::uint64_t serial) noexcept {
    if (serial != state_.serial || state_.in_flight != 0 || state_.changed) return false;
    ++state_.serial;
    state_.busy = state_.resized = false;
    state_.rest = now;
    state_.size_min = state_.size_max = now.size;
    // A writer has died during its write: its bytes, and those it overwrote, are unknown.
    if (!std::ranges::all_of(state_.samples, [](const WriteSample& each) { return each.bytes == 0 || each.ended; }))
        state_.samples = {};
    // Bytes of a write that were cut off again do not count.
    for (WriteSample& sample : state_.samples)
        if (sample.offset + sample.length > now.size) sample = {};   // another program has cut it
        else sample.bytes = std::min(sample.bytes, now.size - sample.offset);
    return true;
}

}   // namespace forebay::log
