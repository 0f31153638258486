// Syncs the target of one file's drain (`Outflow`). If the target may hang, a drain thread syncs, and the caller waits
// at most as long as option `patience` says. Otherwise the caller's thread syncs. Invariants: after a failed sync each
// later one reports the same failure, because a sync reports lost bytes only once. A sync covers all writes that ended
// before it began. One sync or confirmation is in flight at a time. A sync of a target that reports late waits for the
// calls that overlap with it (drain/target_calls.h). Ownership: a sync keeps the staged file until its end, and the
// file owns this. The caller holds the outflow's lock. `sync` waits for the device.
#pragma once

#include "base/status.h"
#include "drain/arrivals.h"
#include "drain/outflow_state.h"

namespace forebay::drain {

class TargetSyncs {
  public:
    explicit TargetSyncs(OutflowState& state) noexcept : state_(state) {}

    // Errors: ETIMEDOUT: patience is over and the outcome unknown. ENOMEM: it has not begun. Any other error is final.
    // Drops the lock while it waits.
    Status sync();

  private:
    class SyncWork;

    Status carry_out() REQUIRES(state_.mutex);
    void complete(AwaitedCall& call, const Status& outcome) noexcept EXCLUDES(state_.mutex);

    OutflowState& state_;
};

}   // namespace forebay::drain
