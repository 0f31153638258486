// The target behind a close (drain/target_guard.h).
//
// A turn begins with a look at the target, by the thread that has taken the first write of it. Others may join as long
// as none of its writes has ended. The thread whose write ends last looks at what the turn has left. So as many writes
// are under way at a time as before the close, and each look sees a target at rest.
//
// Work that was taken before the close returned and has not begun by then is put off: another program may change the
// target before the work begins. The work is taken again, in a turn.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/attempt.h"
#include "drain/outflow.h"
#include "io/file_control.h"

namespace forebay::drain {

namespace {

// A server is asked, as a client may tell what it has kept. Without times the size has to do.
Result<io::FileState> look_at(io::File& target) {
    auto now = target.state(io::File::Ask::kOfServer);
    if (now || now.status().code() != Code::kUnsupported) return now;
    const auto size = target.size();
    if (!size) return size.status();
    return io::FileState{.size = size.value()};
}

// Whether what was written last is there, as far as nothing later has overwritten it.
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

// The writes and the change of size that have begun are the first turn. After them the target has its present size, or
// ends where the furthest of them ends.
void Outflow::guard() {
    drop_planned();
    const log::TargetState& known = witness_.state();
    const bool at_rest = acting_ == 0 && !known.busy && known.in_flight == 0 && !known.others_write &&
                         (known.kind == io::TimesKind::kExact || known.kind == io::TimesKind::kServed);
    const bool size_known = !size_in_doubt_ && !known.others_write && !others_extend_ && !shared_;
    guard_.begin(known.kind, at_rest ? std::optional(known.rest) : std::nullopt, shown_size_,
                 size_known ? shown_size_ : std::max(shown_size_, target_size_));
    guard_.expect_after(known.rest.changed_ns);
    turn_open_ = false;
    // NFS and its like may have to ask the server for one.
    if (known.kind == io::TimesKind::kExact || known.kind == io::TimesKind::kServed)
        (void)attempt([&]() NO_THREAD_SAFETY_ANALYSIS { lease_ = io::Lease::take(*target_); });
}

Outflow::Turn Outflow::take_turn() noexcept {
    const Turn turn = next_turn();
    if (turn == Turn::kBegins) turn_open_ = false;
    ++acting_;
    return turn;
}

bool Outflow::size_comes_first() const noexcept {
    return guard_.on() && acting_ == 0 && !cut_due_ && !shared_ && !others_extend_ &&
           shown_size_ < listener_.backlog().committed_size;
}

bool Outflow::may_begin(Turn turn) const noexcept {
    const LockGuard lock(mutex_);
    return turn != Turn::kNone || !guard_.on();
}

void Outflow::put_off(io::File& target, const plan::TargetWrite* write) noexcept {
    const Status left = end_turn(target, [](TargetGuard&) {});
    {
        const LockGuard lock(mutex_);
        if (write != nullptr) {
            drop(*write);
            --running_;
        } else {
            resizing_ = false;
        }
        if (!left) failed(left);
        listener_.progressed();
        announce();
    }
    wake();
    listener_.came_to_rest();
}

Status Outflow::others_changed() {
    if (!witness_.state().changed) {
        witness_.others_changed();
        note_target();
    }
    return {Code::kUnsupported,
            fmt::format("{}: another program has changed it since its close: {}; that is left as it is, and what had "
                        "not drained stays in the log",
                        path_, guard_.why()),
            log::kChangedByOthers};
}

Status Outflow::look_before_turn(io::File& target) {
    {
        const LockGuard lock(mutex_);
        if (guard_.changed()) return others_changed();
    }
    const auto now = look_at(target);
    if (!now) return now.status();
    log::TargetState known;
    {
        const LockGuard lock(mutex_);
        if (nameless_bytes_ == 0 && guard_.loses_name(now.value())) nameless_bytes_ = bytes_.pending_bytes();
        switch (guard_.compare(now.value())) {
            case TargetGuard::Found::kSame: return Status::ok();
            case TargetGuard::Found::kChanged: return others_changed();
            case TargetGuard::Found::kTimesSet: known = witness_.state();
        }
    }
    const auto same = has_samples(target, known);
    if (!same) return same.status();
    const LockGuard lock(mutex_);
    if (same.value()) {
        guard_.accept(now.value());
        return Status::ok();
    }
    guard_.reject("its times were set, and what was written to it last is not there");
    return others_changed();
}

Status Outflow::begin_turn(io::File& target) noexcept {
    const Status looked = attempt([&] { return look_before_turn(target); });
    if (!looked) return looked;
    bool more = false;
    {
        const LockGuard lock(mutex_);
        turn_open_ = true;
        more = running_ < concurrency_.allowed() && (!planned_.empty() || worth_draining());
    }
    if (more)
        (void)attempt([&] {
            wake();
            return Status::ok();
        });
    return looked;
}

// A time that another program has set is set again, after each turn: a program that looks meanwhile finds it, and so
// does recovery.
Status Outflow::look_after_turn(io::File& target) {
    auto now = look_at(target);
    if (!now) return now.status();
    std::optional<std::uint64_t> keep_ns;
    {
        const LockGuard lock(mutex_);
        if (guard_.left(now.value()) == TargetGuard::Found::kChanged) return others_changed();
        keep_ns = guard_.modified_to_keep_ns();
    }
    if (!keep_ns || now.value().modified_ns == *keep_ns || !io::set_modified(target, *keep_ns)) return Status::ok();
    now = look_at(target);
    if (!now) return now.status();
    const LockGuard lock(mutex_);
    return guard_.left(now.value()) == TargetGuard::Found::kChanged ? others_changed() : Status::ok();
}

Status Outflow::end_turn(io::File& target, const NoteEnd& note) noexcept {
    {
        const LockGuard lock(mutex_);
        turn_open_ = false;
        --acting_;
        if (guard_.on()) note(guard_);
        if (!guard_.on() || acting_ > 0 || guard_.changed()) return Status::ok();
        looking_ = true;
    }
    const Status left = attempt([&] { return look_after_turn(target); });
    const LockGuard lock(mutex_);
    looking_ = false;
    if (!left && !guard_.changed()) guard_.lose_rest();
    return left;
}

}   // namespace forebay::drain
