// The drainer's release of segments: it finds the segments of a group's logs that are free again.
// With durability=node a segment is free only after a statement on the device says so (docs/log-format.md, "Durable
// logs of several processes"). The drainer makes a survey, plans the release, makes the statement, and releases.
// Thread-safety: callers hold the file's lock, except for `state` and `retire`, which one thread at a time calls
// without it. Blocking: `state` and `retire`, on devices.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "group/participants.h"
#include "group/record_order.h"
#include "group/statement.h"
#include "log/frontier.h"

namespace forebay::group {

class LogRelease {
  public:
    LogRelease(Participants& participants, LogFollowers& logs, RecordOrder& order) noexcept
        : participants_(participants), logs_(logs), order_(order) {}

    // The drainer calls this when it has no work in flight. Rings the doorbell if a participant waits for room.
    void at_rest() noexcept;
    // Every followed record is in the target.
    void all_drained() noexcept;
    // The target has the whole file, with its size, and the logs go: no record counts any more. Without the drainer's
    // log, recovery gives up written records only after this call.
    void complete() noexcept;

    // Sequence bounds of the drainer's own records.
    struct Account {
        log::Frontier needed;        // of the drainer's own log
        std::uint64_t drained = 0;   // see log::SegmentOrder::may_go
        bool idle = false;           // its oldest segment waits only for the frontier
        std::uint64_t cut = 0;       // sequence number of a truncation that blocks the frontier
    };
    // True if a participant waits until all records so far have drained (OwnLog::drain_below).
    [[nodiscard]] bool frontier_wanted() const noexcept;
    // Moves the frontier, and releases the oldest segments of the other logs that have no live bytes and no pins and
    // may go. Returns the frontier, or nullopt if the drainer's own segments must stay.
    std::optional<log::Frontier> recycle(const Account& account) noexcept;

    // ---- with durability=node -------------------------------------------------------------------

    [[nodiscard]] bool durable() const noexcept { return participants_.setup().durable; }
    // Returns the frontier and the followed part of each other log. The caller adds its own log and the commit.
    [[nodiscard]] Statement survey() const;
    // Adds the next frontier to `plan`, and the segments of the other logs that it needs. The caller then checks its
    // own log. Returns false while the next frontier is unknown.
    [[nodiscard]] bool plan_release(const Account& account, Statement& plan);
    // Syncs the other logs up to the ends in `statement`, then writes the statement to its device.
    [[nodiscard]] Status state(const Statement& statement);
    // Releases the segments that `plan_release` planned, after `state` returned ok.
    void release(const Statement& stated) noexcept;
    // Call it once the target durably has every byte. Moves the frontier beyond all records, and syncs the board.
    [[nodiscard]] Status retire();

  private:
    std::optional<log::Frontier> next_frontier(const Account& account) const noexcept;
    bool store_frontier(const log::Frontier& next) noexcept;

    Participants& participants_;
    LogFollowers& logs_;
    RecordOrder& order_;
    std::uint64_t statements_ = 0;   // made so far
};

}   // namespace forebay::group
