// Looks at the target behind a close, before and after each turn (drain/turns.h).
#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/attempt.h"
#include "drain/outflow.h"
#include "io/file_control.h"

namespace forebay::drain {

namespace {

// Asks the server, since a client may answer from its cache. Without times the size must do.
Result<io::FileState> look_at(io::File& target) {
    auto now = target.state(io::File::Ask::kOfServer);
    if (now || now.status().code() != Code::kUnsupported) return now;
    const auto size = target.size();
    if (!size) return size.status();
    return io::FileState{.size = size.value()};
}

// Returns true if the target has the samples of the last writes that no later write has overwritten.
Result<bool> has_samples(io::File& target, const log::TargetState& known) {
    std::array<std::byte, log::kSampleMax> bytes;
    for (std::size_t i = 0; i < known.samples.size(); ++i) {
        const log::WriteSample& sample = known.samples[i];
        if (sample.length == 0) continue;
        const ByteRange place{sample.offset, sample.offset + sample.length};
        bool overwritten = false;
        for (std::size_t later = 0; later < i; ++later)
            overwritten = overwritten || place.overlaps({known.samples[later].offset,
                                                         known.samples[later].offset + known.samples[later].bytes});
        if (overwritten) continue;
        const auto into = std::span(bytes).first(sample.length);
        const auto got = target.read_at(sample.offset, into);
        if (!got) return got.status();
        if (got.value() != into.size() || log::sample_hash(into) != sample.hash) return false;
    }
    return true;
}

}   // namespace

void Outflow::begin_turns() {
    planner_.drop_planned();
    turns_.begin(target_, planner_.shared());
}

bool Outflow::size_comes_first() const noexcept {
    return turns_.on() && !turns_.any_taken() && !target_.cut_due() && !planner_.shared() && !target_.others_extend() &&
           target_.shown_size() < listener_.backlog().committed_size;
}

bool Outflow::may_begin(Turn turn) const noexcept {
    const LockGuard lock(mutex_);
    return turns_.may_begin(turn);
}

void Outflow::put_off(io::File& target, const plan::TargetWrite* write) noexcept {
    const Status left = end_turn(target, [](TargetGuard&) {});
    {
        const LockGuard lock(mutex_);
        if (write != nullptr) planner_.put_back(*write);
        else queue_.set_resizing(false);
        if (!left) failed(left);
        listener_.progressed();
        arrivals_.announce();
    }
    wake();
    listener_.came_to_rest();
}

Status Outflow::others_changed() {
    target_.note_foreign_change();
    return {Code::kUnsupported,
            fmt::format("{}: another program has changed it since its close: {}; forebay leaves the file as it is, and "
                        "the bytes that had not drained stay in the log",
                        path_, turns_.guard().why()),
            log::kChangedByOthers};
}

Status Outflow::look_before_turn(io::File& target) {
    {
        const LockGuard lock(mutex_);
        if (turns_.changed()) return others_changed();
    }
    const auto now = look_at(target);
    if (!now) return now.status();
    log::TargetState known;
    {
        const LockGuard lock(mutex_);
        turns_.note_names(now.value(), bytes_.pending_bytes());
        switch (turns_.guard().compare(now.value())) {
            case TargetGuard::Found::kSame: return Status::ok();
            case TargetGuard::Found::kChanged: return others_changed();
            case TargetGuard::Found::kTimesSet: known = target_.witness().state();
        }
    }
    const auto same = has_samples(target, known);
    if (!same) return same.status();
    const LockGuard lock(mutex_);
    if (same.value()) {
        turns_.guard().accept(now.value());
        return Status::ok();
    }
    turns_.guard().reject("its times were set, and the last bytes written to it are not there");
    return others_changed();
}

Status Outflow::begin_turn(io::File& target) noexcept {
    const Status looked = attempt([&] { return look_before_turn(target); });
    if (!looked) return looked;
    bool more = false;
    {
        const LockGuard lock(mutex_);
        turns_.admit();
        more = queue_.has_room() && (!queue_.planned().empty() || planner_.worth_draining());
    }
    if (more)
        (void)attempt([&] {
            wake();
            return Status::ok();
        });
    return looked;
}

// Restores a time that another program has set after each turn, for programs and recovery to find.
Status Outflow::look_after_turn(io::File& target) {
    auto now = look_at(target);
    if (!now) return now.status();
    std::optional<std::uint64_t> keep_ns;
    {
        const LockGuard lock(mutex_);
        if (turns_.guard().left(now.value()) == TargetGuard::Found::kChanged) return others_changed();
        keep_ns = turns_.guard().modified_to_keep_ns();
    }
    if (!keep_ns || now.value().modified_ns == *keep_ns || !io::set_modified(target, *keep_ns)) return Status::ok();
    now = look_at(target);
    if (!now) return now.status();
    const LockGuard lock(mutex_);
    return turns_.guard().left(now.value()) == TargetGuard::Found::kChanged ? others_changed() : Status::ok();
}

Status Outflow::end_turn(io::File& target, const NoteEnd& note) noexcept {
    {
        const LockGuard lock(mutex_);
        if (!turns_.end(note)) return Status::ok();
    }
    const Status left = attempt([&] { return look_after_turn(target); });
    const LockGuard lock(mutex_);
    turns_.looked(left.is_ok());
    return left;
}

}   // namespace forebay::drain
