#include "cache/trial.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace forebay::cache {

namespace {

// Moves adjoining places far apart (the finalizer of SplitMix64).
std::uint64_t scattered(std::uint64_t place) noexcept {
    place = (place ^ place >> 30) * 0xbf58476d1ce4e5b9;
    place = (place ^ place >> 27) * 0x94d049bb133111eb;
    return place ^ place >> 31;
}

}   // namespace

// Also if the request begins shortly behind a stream. A new stream replaces the least recently used one.
bool Trial::follows(ByteRange asked) noexcept {
    const std::uint64_t gap = std::min(kGapMax, file_bytes_ / kGapShare);
    ++tick_;
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < kStreams; ++i) {
        const bool used = stream_used_[i] != 0;
        if (used && asked.begin >= stream_ends_[i] && asked.begin - stream_ends_[i] <= gap) {
            stream_ends_[i] = asked.end;
            stream_used_[i] = tick_;
            return true;
        }
        if (stream_used_[i] < stream_used_[oldest]) oldest = i;
    }
    stream_ends_[oldest] = asked.end;
    stream_used_[oldest] = tick_;
    return false;
}

bool Trial::is_sampled(std::uint64_t place) const noexcept {
    return (scattered(place) & ((std::uint64_t{1} << thinned_) - 1)) == 0;
}

void Trial::remember(std::uint64_t place) {
    while (places_.size() >= kPlacesMax) {
        ++thinned_;
        std::erase_if(places_, [this](std::uint64_t known) { return !is_sampled(known); });
    }
    if (is_sampled(place)) places_.insert(std::ranges::lower_bound(places_, place), place);
}

Trial::Verdict Trial::note(ByteRange asked, std::uint64_t took_ns) {
    const std::uint64_t bytes = asked.size();
    const bool first = tick_ == 0;
    if (!follows(asked) && !first) {
        scattered_bytes_ += bytes;
        all_.telling += bytes;
    }
    read_bytes_ += bytes;
    ++all_.requests;
    all_.bytes += bytes;
    all_.ns += took_ns;
    // A metadata node may lie where a larger request begins, so the size is part of the place.
    const std::uint64_t place = asked.begin * 64 + static_cast<std::uint64_t>(std::bit_width(bytes)) % 64;
    if (is_sampled(place)) {
        ++sampled_.requests;
        sampled_.bytes += bytes;
        if (std::ranges::binary_search(places_, place)) sampled_.telling += bytes;
        else remember(place);
    }
    if (all_.requests < kWindow) return Verdict::kUndecided;
    const Window window = all_;
    all_ = {};
    const bool is_fast = judge_speed_ && window.ns < fast_ns(window.requests, window.bytes);
    bool repeated = false;
    if (sampled_.requests >= kWindow) {
        repeated = sampled_.telling > sampled_.bytes / 2;
        sampled_ = {};
    }
    if (is_fast) return Verdict::kFast;
    const bool is_scattered = window.telling > window.bytes / 2 && scattered_bytes_ > read_bytes_ / 2 &&
                              scattered_bytes_ >= file_bytes_ / kScatteredShare;
    return repeated || is_scattered ? Verdict::kPays : Verdict::kUndecided;
}

}   // namespace forebay::cache
