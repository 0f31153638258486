// Records the changes that a process makes to a target, for the target's state in the log (log/target_state.h). The
// caller reports each change before and after, and stores the state in the log before the change begins. After a crash
// at any time the stored state then allows the changes that were made, and no others. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "extent/range.h"
#include "log/target_state.h"

namespace forebay::log {

class TargetWitness {
  public:
    [[nodiscard]] const TargetState& state() const noexcept { return state_; }
    // Continues from a state of an earlier process.
    void resume(const TargetState& state) noexcept;
    // Begins with an unwritten target. Serials continue to rise.
    void open(io::TimesKind kind, const io::FileState& now, std::uint64_t mounts = 0) noexcept;
    // The target has no usable times: the state says nothing.
    void give_up() noexcept;

    // The range to read before `range` is written: its own place or, if that lies behind the end of file, the last
    // page. Empty if a sample already identifies the target, or a write is in flight.
    [[nodiscard]] ByteRange to_be_seen_before(ByteRange range) const noexcept;
    // Adds a sample of bytes that were read at `serial`; ignored if a change began since. The next note stores it.
    void saw(std::uint64_t offset, std::span<const std::byte> sample, std::uint64_t serial) noexcept;

    // A write of `range` is about to begin with the bytes `sample`; empty if they are unreadable.
    void begin_write(ByteRange range, std::span<const std::byte> sample) noexcept;
    // A failed write may have come in part, and its server may have lost earlier ones. So a failure drops all samples.
    void end_write(ByteRange range, bool written = true) noexcept;
    // Another system call of a write in flight is about to begin.
    void go_on() noexcept;
    // A change of size, or a hole that leaves the size, is about to begin.
    void begin_resize(std::uint64_t size) noexcept;
    void begin_punch(ByteRange range) noexcept;
    void end_resize(bool done = true) noexcept;   // a failure counts as with a write
    void note_external_writers() noexcept;
    // Another program changed the target. The witness takes no state any more: none of that program's passes as ours.
    void others_changed() noexcept;

    // True if changes were made and none is in flight, so that `rested` needs the target's state.
    [[nodiscard]] bool to_be_looked_at() const noexcept;
    // Directs the next note to the other of the two places (log/target_state.h).
    void skip_serial() noexcept { ++state_.serial; }
    // Takes the state that was read at `serial`; ignored if a change began since. Samples stay: a later write of which
    // nothing arrives does not change them.
    [[nodiscard]] bool rested(const io::FileState& now, std::uint64_t serial) noexcept;

  private:
    void change() noexcept;
    void forget_samples(ByteRange range) noexcept;
    void add_sample(const WriteSample& sample) noexcept;
    TargetState state_;
    std::optional<std::uint64_t> resizing_to_;   // the size that is being set
};

}   // namespace forebay::log
