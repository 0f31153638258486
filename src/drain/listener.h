// The interface of a file to its outflow (drain/outflow.h): questions and events. The file implements it.
// Thread-safety: calls hold the lock that file and outflow share, unless a function says otherwise. Nothing blocks.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "extent/range.h"
#include "group/bypass_count.h"
#include "log/target_state.h"
#include "plan/merge.h"

namespace forebay::drain {

struct Backlog {
    std::uint64_t ready_bytes = 0;      // free to drain
    bool any_ready = false;             // extents, or zeros, are free to drain
    bool clogged = false;               // a few pieces keep a log that is mostly dead
    std::uint64_t logical_size = 0;     // of the file, as the program sees it
    std::uint64_t committed_size = 0;   // of the file, at its last commit
};

class DrainListener {
  public:
    virtual ~DrainListener() = default;
    // Keeps file and outflow alive while a drain thread works for it. Called without the lock.
    [[nodiscard]] virtual std::shared_ptr<void> hold() = 0;

    // True if the file is staged and this process drains it.
    [[nodiscard]] virtual bool drains() const noexcept = 0;
    // True if the program has closed the file and no queued write may reach the target.
    [[nodiscard]] virtual bool given_up() const noexcept = 0;
    // Takes other participants' records into the index; with `may_wait`, once there are more. Throws std::bad_alloc.
    virtual void catch_up(bool may_wait) = 0;
    [[nodiscard]] virtual Backlog backlog() const noexcept = 0;
    // True if the log has records, so that the target's state is worth noting.
    [[nodiscard]] virtual bool has_records() const noexcept = 0;
    [[nodiscard]] virtual group::BypassCount& bypasses() noexcept = 0;

    // The target's state has changed; the log stores it.
    virtual void note(const log::TargetState& state) noexcept = 0;
    // A target write has ended after `took_ns`. On success its pieces are no longer staged.
    virtual void written(const plan::TargetWrite& write, bool succeeded, std::uint64_t took_ns) noexcept = 0;
    // Some staged bytes cannot be read back.
    virtual void lost() noexcept = 0;
    // The outflow keeps the first background failure.
    virtual void error_kept(int sys_errno) noexcept = 0;
    // All bytes that had failed have reached the target.
    virtual void made_good() noexcept = 0;
    // The drain pauses, after a failed attempt or without memory. No event ends the pause: to go on, wake the drain.
    virtual void paused() noexcept = 0;
    // The drain has halted until the file is closed.
    virtual void halted(const Status& failure) noexcept = 0;
    virtual void pace_changed() noexcept = 0;
    // A write or a change of size has ended, successfully or not.
    virtual void progressed() noexcept = 0;
    virtual void synced() noexcept = 0;

    // Both are called without the lock. `reached`: the target has `range`. `came_to_rest`: threads that wait for room
    // look again.
    virtual void reached(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) = 0;
    virtual void came_to_rest() noexcept = 0;
};

}   // namespace forebay::drain
