// Keeps the account of what is done to a target, so that its state can be noted in the log before and after
// (log/target_state.h).
//
// Whoever changes the target says so before and after; the state is to be stored in the log before the change begins.
// Death at any instant then leaves a state that allows what was done, and no more. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "extent/range.h"
#include "log/target_state.h"

namespace forebay::log {

class TargetWitness {
  public:
    [[nodiscard]] const TargetState& state() const noexcept { return state_; }
    // Goes on from what was noted before.
    void resume(const TargetState& state) noexcept;
    // Nobody has written to it yet. From now on serials rise from the one before.
    void open(io::TimesKind kind, const io::FileState& now, std::uint64_t mounts = 0) noexcept;
    // It has no times, or they cannot be had: nothing is told of it.
    void give_up() noexcept;

    // What has to be read before `range` is written: of the place, or of the target's end if the range lies behind it.
    // Nothing if something tells the target from another file already, or if a write is under way.
    [[nodiscard]] ByteRange to_be_seen_before(ByteRange range) const noexcept;
    // `sample` is there; looked at when the serial was `serial`: counts if nothing has begun since. Is stored with what
    // is noted next.
    void saw(std::uint64_t offset, std::span<const std::byte> sample, std::uint64_t serial) noexcept;

    // A write of `range` is about to begin, whose first bytes are `sample` (none: they cannot be had).
    void begin_write(ByteRange range, std::span<const std::byte> sample) noexcept;
    // One that has failed may have come in part, or not at all; and a server that fails may have lost what it took
    // before. So nothing that was written is a sign any more.
    void end_write(ByteRange range, bool written = true) noexcept;
    // One more call of a write that has begun.
    void go_on() noexcept;
    // Its size is about to be set; or a hole to be punched, which leaves the size.
    void begin_resize(std::uint64_t size) noexcept;
    void begin_punch(ByteRange range) noexcept;
    void end_resize(bool done = true) noexcept;   // a failure: as of a write
    void note_external_writers() noexcept;
    // Another program has changed it. Nothing is looked at any more, so that no state of its own passes for this one's.
    void others_changed() noexcept;

    // Whether its state has to be looked at: nothing is under way, and something was.
    [[nodiscard]] bool to_be_looked_at() const noexcept;
    // The next note goes to the other of the two places (log/target_state.h).
    void skip_serial() noexcept { ++state_.serial; }
    // Looked at when the serial was `serial`: counts if nothing has begun since. The samples stay: a write that begins
    // later, and of which nothing is there, does not make them come or go.
    [[nodiscard]] bool rested(const io::FileState& now, std::uint64_t serial) noexcept;

  private:
    void change() noexcept;
    void forget_samples(ByteRange range) noexcept;
    void add_sample(const WriteSample& sample) noexcept;
    TargetState state_;
    std::optional<std::uint64_t> resizing_to_;   // the size that is being set
};

}   // namespace forebay::log
