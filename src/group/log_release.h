// Which segments of a group's logs are free again: the drainer's side.
//
// With durability=node a segment is free only after a statement on the device says so (docs/log-format.md, "Durable
// logs of several processes"): the drainer makes a survey, plans the release, makes the statement, and releases.
//
// Thread-safety: callers hold the file's lock, but for `state` and `retire`, which one thread at a time calls without
// it. Blocking: `state` and `retire`, on devices.
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

    // The drainer has no work under way. If a participant still waits for room, the drainer looks for more to drain.
    void at_rest() noexcept;
    // Every followed record is in the target.
    void all_drained() noexcept;

    // Sequence bounds of the drainer's own records.
    struct Account {
        log::Frontier needed;        // by its own log
        std::uint64_t drained = 0;   // see log::SegmentOrder::may_go
        bool idle = false;           // its oldest segment could go but for the frontier
        std::uint64_t cut = 0;       // the record of a truncation; the frontier moves once it has passed it
    };
    // Moves the frontier, and releases the oldest segments of the other logs that have no live bytes and no pins and
    // may go. Nullopt: the drainer's own segments have to stay.
    std::optional<log::Frontier> recycle(const Account& account) noexcept;

    // ---- with durability=node -------------------------------------------------------------------

    [[nodiscard]] bool durable() const noexcept { return participants_.setup().durable; }
    // The frontier, and how far each other log was followed. The caller adds its own log and the commit.
    [[nodiscard]] Statement survey() const;
    // Puts the next frontier into `plan`, and which segments of the other logs would be needed then. The caller then
    // looks at its own log. False: the next frontier is unknown now.
    [[nodiscard]] bool plan_release(const Account& account, Statement& plan);
    // Syncs the other logs up to the ends in `statement`, then writes the statement to its device.
    [[nodiscard]] Status state(const Statement& statement);
    // Releases what `plan_release` has planned and `state` has made certain.
    void release(const Statement& stated) noexcept;
    // The target has every byte, durably: no record of any log counts any more.
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
