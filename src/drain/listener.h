// The calls by which an outflow (drain/outflow.h) asks and informs the file that it drains.
//
// The file implements this; tests have another implementation. All calls come under the lock that file and outflow
// share, unless a function says otherwise.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "extent/range.h"
#include "group/bypass_count.h"
#include "log/target_state.h"
#include "plan/merge.h"

namespace forebay::drain {

// How much is staged.
struct Backlog {
    std::uint64_t ready_bytes = 0;      // free to drain
    bool any_ready = false;             // extents are free to drain, zeros among them
    bool clogged = false;               // most of the log is dead, and a few pieces keep it
    std::uint64_t logical_size = 0;     // of the file, as the program sees it
    std::uint64_t committed_size = 0;   // of the file, at its last commit
};

class DrainListener {
  public:
    virtual ~DrainListener() = default;
    // Keeps the file, and the outflow with it, while a drain thread works for it. Called without the lock.
    [[nodiscard]] virtual std::shared_ptr<void> hold() = 0;

    // ---- what the outflow asks ------------------------------------------------------------------

    // The file is staged, and this process drains it.
    [[nodiscard]] virtual bool drains() const noexcept = 0;
    // The program has closed the file, and no write that still waits for a thread may reach the target.
    [[nodiscard]] virtual bool given_up() const noexcept = 0;
    // Takes the records of other participants into the index; if `may_wait`, not before there are more of them. May
    // throw std::bad_alloc.
    virtual void catch_up(bool may_wait) = 0;
    [[nodiscard]] virtual Backlog backlog() const noexcept = 0;
    // The log has records, so it is worth noting the target's state.
    [[nodiscard]] virtual bool has_records() const noexcept = 0;
    // Writes to the target that bypass the log.
    [[nodiscard]] virtual group::BypassCount& bypasses() noexcept = 0;

    // ---- what the outflow tells -----------------------------------------------------------------

    // The target's state, for the log.
    virtual void note(const log::TargetState& state) noexcept = 0;
    // A target write has ended and took `took_ns`. If it has succeeded, its pieces are staged no more.
    virtual void written(const plan::TargetWrite& write, bool succeeded, std::uint64_t took_ns) noexcept = 0;
    // Some staged bytes cannot be read back any more.
    virtual void lost() noexcept = 0;
    // The first failure of the background, which the outflow keeps.
    virtual void error_kept(int sys_errno) noexcept = 0;
    // Everything that had failed has reached the target since.
    virtual void made_good() noexcept = 0;
    // Nothing is drained any more until the file is closed.
    virtual void halted(const Status& failure) noexcept = 0;
    // `Outflow::pace` has changed.
    virtual void pace_changed() noexcept = 0;
    // A write or a change of size has ended, well or not.
    virtual void progressed() noexcept = 0;
    virtual void synced() noexcept = 0;

    // Called without the lock: bytes have reached the target; nothing is under way or left to take.
    virtual void reached(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) = 0;
    virtual void came_to_rest() noexcept = 0;
};

}   // namespace forebay::drain
