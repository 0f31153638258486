#include "cache/version_watch.h"

#include <algorithm>
#include <cerrno>

namespace forebay::cache {

bool VersionWatch::is_source(const io::FileState& state) const noexcept {
    const Version& expected = replica_.source();
    return state.size == expected.size && state.modified_ns == expected.modified_ns &&
           state.changed_ns == expected.changed_ns;
}

bool VersionWatch::is_still_source() {
    if (replica_.unusable()) return false;
    const auto state = source_.state(io::File::Ask::kTimes);
    if (state && is_source(state.value())) return true;
    if (state) note_changed();
    return false;
}

bool VersionWatch::look_again() { return look(false); }

void VersionWatch::look_behind() { (void)look(true); }

bool VersionWatch::look(bool behind) {
    looked_ns_.store(policy_.steady_ns(), std::memory_order_relaxed);
    const auto state = source_.state(io::File::Ask::kOfServer);
    if (state && !is_source(state.value())) note_changed();
    if (state || !behind || state.status().sys_errno() == ESTALE) unanswered_.store(!state);
    return state.is_ok();
}

void VersionWatch::note_changed() noexcept {
    replica_.make_void();
    admission_.stop(Aside::kChanged);
    buffer_.clear();
}

// With `look_behind_ns` hits go on while a file server does not answer.
VersionWatch::Due VersionWatch::due() noexcept {
    if (unanswered_.load(std::memory_order_relaxed)) return Due::kNow;
    const std::uint64_t every_ns = std::min(policy_.look_every_ns, policy_.look_behind_ns);
    if (every_ns == kOffsetMax || policy_.steady_ns() - looked_ns_.load(std::memory_order_relaxed) < every_ns)
        return Due::kNo;
    if (policy_.look_every_ns != kOffsetMax) return Due::kNow;
    return looking_.exchange(true) ? Due::kNo : Due::kBehind;
}

}   // namespace forebay::cache
