// Asks a target that reports failures late (io::FileTraits) to confirm the bytes that it has taken. A write of such a
// target may return, and a later call report that its bytes are lost. The log keeps the bytes as sent until a call
// confirms them. A drain thread asks when many wait, or when a writer needs room. Invariants: a failed call may be that
// of any earlier write, so all sent bytes drain again (OutflowState::resend). A failed confirmation counts as a failed
// write. One confirmation or sync is in flight at a time. Ownership: a call in a drain thread keeps the file, and so
// this, until its end. Thread-safety: the outflow's lock. The caller holds it, except for `ask`. Blocking: `await`
// waits for the target, with patience.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "drain/arrivals.h"
#include "drain/outflow_state.h"

namespace forebay::drain {

// How the target confirms. kSync: the servers have the bytes. kClose: as for a native program that closes the file.
enum class Confirm : std::uint8_t { kSync, kClose };

class TargetConfirms {
  public:
    explicit TargetConfirms(OutflowState& state) noexcept : state_(state) {}

    // Waits until the target has confirmed all sent bytes and, for a close, all that the log lacks (TargetCalls).
    // Returns its failure, after which the sent bytes are ready again, or ETIMEDOUT. The outflow's lock; drops it.
    Status await(Confirm how);
    // Has a drain thread ask for a confirmation. Returns true if one asks now. Takes the outflow's lock.
    bool ask();
    // True if so many bytes wait for a confirmation that a drain thread should ask. The outflow's lock.
    [[nodiscard]] bool due() const noexcept;

  private:
    class ConfirmWork;

    [[nodiscard]] bool wanted(Confirm how) const noexcept REQUIRES(state_.mutex);
    [[nodiscard]] std::unique_ptr<Work> begin(Confirm how, std::shared_ptr<AwaitedCall> call) REQUIRES(state_.mutex);
    void complete(AwaitedCall& call, const Status& outcome) noexcept EXCLUDES(state_.mutex);

    OutflowState& state_;
};

}   // namespace forebay::drain
