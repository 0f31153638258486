// Writes of the program that bypass the log: keeps them apart from the drain's.
//
// The program's thread writes between `begin` and `end`. Its range is in flight for that time, so the drain writes none
// of it.
// Invariants: no two writes of the target overlap in time and place. After a successful bypass no older bytes of its
// range reach the target: the caller drops them from the index. A cut that is due is carried out before bytes beyond it
// are written.
// Thread-safety: the outflow's lock, which the caller holds. Blocking: `begin` waits for the target, with patience.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "drain/target_calls.h"
#include "extent/range.h"
#include "io/file.h"

namespace forebay::drain {

class Outflow;

class BypassWrites {
  public:
    // `outflow` has the state, carries out cuts, and contains this.
    explicit BypassWrites(Outflow& outflow) noexcept : outflow_(outflow) {}

    // Before the calling thread writes these bytes: waits for overlapping writes and cuts. ETIMEDOUT: nothing has
    // reached the target for the time in option patience. The outflow's lock; drops it.
    Result<TargetCalls::Call> begin(std::uint64_t offset, io::Bytes bytes);
    // After the write, with the call that `begin` gave. If it succeeded, the target has the range. The caller then has
    // writers that wait for room look again. The outflow's lock.
    void end(ByteRange range, const TargetCalls::Call& call, const Status& written) noexcept;

  private:
    Outflow& outflow_;
};

}   // namespace forebay::drain
