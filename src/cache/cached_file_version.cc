// Tells whether a cached file still has the version of its replica.
#include <algorithm>
#include <memory>

#include "base/attempt.h"
#include "cache/cached_file_core.h"

namespace forebay::cache {

// True if bytes just read from the file are of the replica's version; false if that is unknown.
bool CachedFile::Core::is_still_source() {
    if (replica_->unusable()) return false;
    const auto state = source_->state(io::File::Ask::kTimes);
    if (state && is_source(state.value())) return true;
    if (state) note_changed();
    return false;
}

// The file may have changed between two opens. Without an answer nothing changes: reads ask too.
void CachedFile::Core::look_again() {
    looked_ns_.store(policy_.steady_ns(), std::memory_order_relaxed);
    const auto state = source_->state(io::File::Ask::kOfServer);
    if (state && !is_source(state.value())) note_changed();
}

void CachedFile::Core::note_changed() noexcept {
    step_aside(Aside::kChanged);
    replica_->make_void();
    stopped_.store(true);
    buffer_.clear();
}

// With `look_behind_ns` hits go on while a file server does not answer.
void CachedFile::Core::look_if_due(const std::shared_ptr<Core>& self) {
    const std::uint64_t every_ns = std::min(policy_.look_every_ns, policy_.look_behind_ns);
    if (every_ns == kOffsetMax || policy_.steady_ns() - looked_ns_.load(std::memory_order_relaxed) < every_ns) return;
    if (policy_.look_every_ns != kOffsetMax) return look_again();
    if (looking_.exchange(true)) return;
    bool begun = false;
    (void)attempt([&] {
        if (!take_budget(1)) return;   // a close waits for the task
        auto waited_for = std::make_shared<Budget>(self, 1);
        begun = submit([self, waited_for] {
            if (!self->closing_.load()) self->look_again();
            self->looking_.store(false);
            return Status::ok();
        });
    });
    if (!begun) looking_.store(false);
}

bool CachedFile::Core::is_source(const io::FileState& state) const noexcept {
    const Version& expected = replica_->source();
    return state.size == expected.size && state.modified_ns == expected.modified_ns &&
           state.changed_ns == expected.changed_ns;
}

}   // namespace forebay::cache
