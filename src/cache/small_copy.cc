#include "cache/small_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/attempt.h"

namespace forebay::cache {

SmallCopy::~SmallCopy() {
    if (budget_ > 0) policy_.shared->give_back(budget_);
}

std::optional<std::size_t> SmallCopy::read(io::File& source, CacheCounters& counters, std::uint64_t offset,
                                           io::MutableBytes into) {
    if (io::forks_so_far() != forks_) {   // another thread of the parent may have held the lock
        counters.step_aside(Aside::kForked);
        return std::nullopt;
    }
    // The end of the file is where it ends now.
    if (offset >= version_.size || into.size() > version_.size - offset) return std::nullopt;
    bool brought = false;
    if (state_.load(std::memory_order_acquire) == State::kNone) {
        const std::lock_guard lock(bringing_);
        if (state_.load(std::memory_order_relaxed) == State::kNone) {
            const std::uint64_t fetched = counters.fetched_bytes.load();
            bring(source, counters);
            brought = counters.fetched_bytes.load() != fetched;
        }
    }
    if (state_.load(std::memory_order_acquire) != State::kHere || !is_current(source, counters)) return std::nullopt;
    std::memcpy(into.data(), content_.data() + offset, into.size());
    (brought ? counters.missed_bytes : counters.hit_bytes).fetch_add(into.size(), std::memory_order_relaxed);
    return into.size();
}

bool SmallCopy::is_version_of(io::File& source, io::File::Ask ask) const {
    const auto state = source.state(ask);
    return state && state.value().size == version_.size && state.value().modified_ns == version_.modified_ns &&
           state.value().changed_ns == version_.changed_ns;
}

bool SmallCopy::is_current(io::File& source, CacheCounters& counters) {
    const std::uint64_t every_ns = std::min(policy_.look_every_ns, policy_.look_behind_ns);
    if (every_ns == kOffsetMax) return true;
    if (policy_.steady_ns() - looked_ns_.load(std::memory_order_relaxed) >= every_ns) look_again(source, counters);
    return state_.load(std::memory_order_relaxed) == State::kHere;
}

// A file that does not answer is left to the program's own read.
void SmallCopy::look_again(io::File& source, CacheCounters& counters) {
    looked_ns_.store(policy_.steady_ns(), std::memory_order_relaxed);
    if (is_version_of(source, io::File::Ask::kOfServer)) return;
    counters.step_aside(Aside::kChanged);
    state_.store(State::kPassed);
}

// The state says what came of it. Whatever fails, the file itself is there.
void SmallCopy::bring(io::File& source, CacheCounters& counters) noexcept {
    bool here = false;
    (void)attempt([&] {
        if (policy_.now_ns() < std::max(version_.modified_ns, version_.changed_ns) + policy_.young_ns)
            return counters.step_aside(Aside::kYoung);
        if (policy_.shared != nullptr && !policy_.shared->take(version_.size)) return counters.step_aside(Aside::kFull);
        if (policy_.shared != nullptr) budget_ = version_.size;
        auto kept = files_->load(version_);
        if (kept) content_ = std::move(*kept);
        here = kept || fetch(source, counters);
    });
    if (!here && budget_ > 0) policy_.shared->give_back(std::exchange(budget_, 0));
    State none = State::kNone;   // `look_again` may have seen a change meanwhile
    state_.compare_exchange_strong(none, here ? State::kHere : State::kPassed);
}

// Reads the whole file, compares its version afterwards, and keeps the content.
bool SmallCopy::fetch(io::File& source, CacheCounters& counters) {
    std::vector<std::byte> content(version_.size);
    const auto got = source.read_at(0, content);
    if (!got) return false;   // the program's own read tells the error
    counters.fetched_bytes.fetch_add(got.value(), std::memory_order_relaxed);
    if (got.value() != content.size() || !is_version_of(source, io::File::Ask::kTimes)) {
        counters.step_aside(Aside::kChanged);
        return false;
    }
    content_ = std::move(content);
    if (files_->store(version_, content_)) counters.stored_bytes.fetch_add(content_.size(), std::memory_order_relaxed);
    else counters.step_aside(Aside::kFull);
    return true;
}

}   // namespace forebay::cache
