// Looks at the target of one outflow and notes its state, so that a later look shows changes by other programs. There
// are three kinds of looks. Before a change it reads the bytes that the change replaces, for the log. At rest it takes
// the target's size and times, for the log. Behind a close it compares the target before and after each turn
// (drain/turns.h) with the state that this process left. Invariant: a look that a change of the target overlaps notes
// nothing. Thread-safe: a function takes the outflow's lock as it needs it, and never across a call of the target. The
// caller does not hold it. Blocking: each function calls the target.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "drain/outflow_state.h"
#include "extent/range.h"
#include "io/file.h"
#include "plan/merge.h"

namespace forebay::drain {

class TargetInspector {
  public:
    explicit TargetInspector(OutflowState& state) noexcept : state_(state) {}

    // Notes the bytes that a write of `range` will change, if the log has no other sample of the target.
    void sample_before(ByteRange range) noexcept;
    // Notes that a write begins, with a sample of the bytes before it and of its own.
    void begin_write(const plan::TargetWrite& write) noexcept;
    // Notes the state of an idle target.
    void note_rest() noexcept;

    // kUnsupported with log::kChangedByOthers: another program has changed the target; nothing may be written.
    Status look_before_turn(io::File& target);
    // Looks after a turn, likewise. Restores a time that another program has set, for programs and recovery to find.
    Status look_after_turn(io::File& target);

  private:
    Status others_changed() REQUIRES(state_.mutex);

    OutflowState& state_;
};

}   // namespace forebay::drain
