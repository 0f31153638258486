// What an outflow (drain/outflow.h) knows of the file that it drains.
//
// The file implements this. Every call comes under the lock that file and outflow share, unless it says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/status.h"
#include "extent/range.h"
#include "log/target_state.h"
#include "plan/merge.h"

namespace forebay::drain {

// How much there is to drain.
struct Backlog {
    std::uint64_t ready_bytes = 0;      // free to drain
    bool any_ready = false;             // extents, zeros among them
    bool clogged = false;               // most of the log is dead, but for a few pieces
    std::uint64_t logical_size = 0;     // of the file, as the program sees it
    std::uint64_t committed_size = 0;   // and at its last commit
};

class Supply {
  public:
    virtual ~Supply() = default;
    // Keeps this, and the outflow with it, for as long as a drain thread is at work for it. Without the lock.
    [[nodiscard]] virtual std::shared_ptr<void> hold() = 0;

    // ---- what there is to drain -----------------------------------------------------------------

    // It is staged, and this process drains it.
    [[nodiscard]] virtual bool drains() const noexcept = 0;
    // It was closed, for the program: what waited for a thread must not reach the target any more.
    [[nodiscard]] virtual bool given_up() const noexcept = 0;
    // Takes in what has come from elsewhere; `may_wait`: or leaves it until more has. May throw std::bad_alloc.
    virtual void catch_up(bool may_wait) = 0;
    [[nodiscard]] virtual Backlog backlog() const noexcept = 0;
    [[nodiscard]] virtual std::uint64_t pending_bytes() const noexcept = 0;
    // Ready extents from `offset` on, ascending, the one that `offset` lies in as a whole, until `visit` says false.
    using Visit = std::function<bool(const plan::Piece&)>;
    virtual void walk_ready(std::uint64_t offset, const Visit& visit) const = 0;
    // The bytes stay where they are until unpinned.
    virtual void pin(plan::Keeper keeper) noexcept = 0;
    virtual void unpin(plan::Keeper keeper) noexcept = 0;
    // Records with lower numbers are all known, and may go: whatever comes later is newer.
    [[nodiscard]] virtual std::uint64_t complete_below() const noexcept = 0;
    // Nothing but others is left: the file is to be looked at again once more are.
    virtual void await_complete() noexcept = 0;

    // ---- what comes of it -----------------------------------------------------------------------

    // For the log: what is known of the target from now on.
    virtual void note(const log::TargetState& state) noexcept = 0;
    // The log has records, so it is worth noting more.
    [[nodiscard]] virtual bool has_records() const noexcept = 0;
    // Writes to the target that go past the log: none is under way, since the number that is returned; and still none.
    [[nodiscard]] virtual std::optional<std::uint64_t> no_bypass_now() noexcept = 0;
    [[nodiscard]] virtual bool no_bypass_since(std::optional<std::uint64_t> then) noexcept = 0;
    // A target write has ended, which took so long. If it has succeeded, what it was made of is staged no more.
    virtual void written(const plan::TargetWrite& write, bool succeeded, std::uint64_t took_ns) noexcept = 0;
    // Bytes that a target write needed cannot be read from `address`, which `keeper` keeps. Without the lock.
    [[nodiscard]] virtual Status fault(plan::Keeper keeper, const std::byte* address) const = 0;
    // Some of what is staged cannot be read back any more.
    virtual void lost() noexcept = 0;
    // The first failure of the background, which is kept.
    virtual void error_kept(int sys_errno) noexcept = 0;
    // What had failed has reached the target since.
    virtual void made_good() noexcept = 0;
    // Nothing is drained any more until the file is closed.
    virtual void halted(const Status& failure) noexcept = 0;
    // What the target's pace is taken for has changed.
    virtual void pace_changed() noexcept = 0;
    // A write or a change of size has ended, well or not.
    virtual void progressed() noexcept = 0;
    virtual void synced() noexcept = 0;

    // Without the lock: these bytes have reached the target; and nothing is under way, or to be had, any more.
    virtual void reached(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) = 0;
    virtual void came_to_rest() noexcept = 0;
};

}   // namespace forebay::drain
