#include "cache/small_copy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/attempt.h"

namespace forebay::cache {

namespace {

// An open file stays readable: the name leads elsewhere, permission was lost, or no descriptor is free.
bool only_opening_fails(int error) noexcept {
    switch (error) {
        case ESTALE:
        case ENOENT:
        case ENOTDIR:
        case ELOOP:
        case ENXIO:
        case ENODEV:
        case EACCES:
        case EPERM:
        case EMFILE:
        case ENFILE: return true;
        default: return false;
    }
}

}   // namespace

SmallCopy::~SmallCopy() {
    if (budget_ > 0) policy_.shared->give_back(budget_);
}

std::unique_ptr<SmallCopy> SmallCopy::by_lease(std::shared_ptr<SmallFiles> files, const Lease& lease,
                                               const CachePolicy& policy, Leases& leases) {
    auto copy = std::make_unique<SmallCopy>(std::move(files), lease.version, policy, &leases);
    if (!copy->take_budget()) return nullptr;
    auto kept = copy->files_->load(lease.version);
    if (!kept) return nullptr;
    copy->content_ = std::move(*kept);
    copy->by_lease_ = true;
    copy->state_.store(State::kHere);
    return copy;
}

bool SmallCopy::take_budget() noexcept {
    if (policy_.shared == nullptr) return true;
    if (!policy_.shared->take(version_.size)) return false;
    budget_ = version_.size;
    return true;
}

std::optional<std::size_t> SmallCopy::read(io::File& source, CacheCounters& counters, std::uint64_t offset,
                                           io::MutableBytes into) {
    if (io::forks_so_far() != forks_ && !by_lease_) {   // a thread of the parent may have held the lock
        counters.step_aside(Aside::kForked);
        return std::nullopt;
    }
    // Reads beyond the known end go to the file, which may have grown, except with a lease.
    if (offset >= version_.size || into.size() > version_.size - offset) {
        if (!size()) return std::nullopt;
        offset = std::min(offset, version_.size);
        into = into.first(std::min(into.size(), static_cast<std::size_t>(version_.size - offset)));
    }
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

bool SmallCopy::is_version(const io::FileState& state) const noexcept {
    return state.size == version_.size && state.modified_ns == version_.modified_ns &&
           state.changed_ns == version_.changed_ns;
}

bool SmallCopy::is_current(io::File& source, CacheCounters& counters) {
    const std::uint64_t every_ns = std::min(policy_.look_every_ns, policy_.look_behind_ns);
    if (every_ns == kOffsetMax) return true;
    if (policy_.steady_ns() - looked_ns_.load(std::memory_order_relaxed) >= every_ns) look_again(source, counters);
    return state_.load(std::memory_order_relaxed) == State::kHere;
}

void SmallCopy::look_again(io::File& source, CacheCounters& counters) {
    looked_ns_.store(policy_.steady_ns(), std::memory_order_relaxed);
    const auto state = source.state(io::File::Ask::kOfServer);
    if (state && is_version(state.value())) return;
    if (leases_ != nullptr) leases_->drop(version_.identity);
    if (by_lease_ && only_opening_fails(state.status().sys_errno())) return;
    counters.step_aside(Aside::kChanged);
    state_.store(State::kPassed);
}

// Sets the state. After any failure reads go to the file.
void SmallCopy::bring(io::File& source, CacheCounters& counters) noexcept {
    bool here = false;
    (void)attempt([&] {
        if (policy_.now_ns() < std::max(version_.modified_ns, version_.changed_ns) + policy_.young_ns)
            return counters.step_aside(Aside::kYoung);
        if (!take_budget()) return counters.step_aside(Aside::kFull);
        auto kept = files_->load(version_);
        if (kept) content_ = std::move(*kept);
        here = kept || fetch(source, counters);
    });
    if (!here && budget_ > 0) policy_.shared->give_back(std::exchange(budget_, 0));
    State none = State::kNone;   // `look_again` may have seen a change
    state_.compare_exchange_strong(none, here ? State::kHere : State::kPassed);
}

// Reads the whole file, then compares its version, and stores the content.
bool SmallCopy::fetch(io::File& source, CacheCounters& counters) {
    std::vector<std::byte> content(version_.size);
    const auto got = source.read_at(0, content);
    if (!got) return false;   // the program's own read reports the error
    counters.fetched_bytes.fetch_add(got.value(), std::memory_order_relaxed);
    const auto state = source.state(io::File::Ask::kTimes);
    if (got.value() != content.size() || !state || !is_version(state.value())) {
        counters.step_aside(Aside::kChanged);
        return false;
    }
    content_ = std::move(content);
    if (files_->store(version_, content_)) counters.stored_bytes.fetch_add(content_.size(), std::memory_order_relaxed);
    else counters.step_aside(Aside::kFull);
    return true;
}

}   // namespace forebay::cache
