// This participant's own log, as the group sees it. Thread-safety: `set_released` needs the file's lock; any thread may
// make the other calls. Blocking: `wait_for_room`, `drain_below` and `await_drained`.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "group/participants.h"
#include "log/file_log.h"
#include "log/format.h"
#include "log/segment_pool.h"

namespace forebay::group {

class OwnLog {
  public:
    explicit OwnLog(Participants& participants) noexcept : participants_(participants) {}

    // The sharing of the file, for the open records of the log.
    [[nodiscard]] log::Sharing sharing() const noexcept;
    [[nodiscard]] std::uint64_t index() const noexcept { return participants_.setup().self; }

    // Reports that `segment` is now the newest of this log, with number `order`. The segment has its first record.
    void adopted(const log::Segment& segment, std::uint64_t order) noexcept;
    // Reports that records with these parts are visible. Wakes the drainer if enough bytes are new. With several nodes
    // the drainer calls this for its own records too, so that other nodes can ask for bytes that are not drained yet.
    void appended(std::span<const log::FileLog::Part> parts) noexcept;
    // The lowest order of a segment that is needed. Lower ones are free.
    [[nodiscard]] std::uint64_t released() const noexcept {
        return participants_.own_row().released.load(std::memory_order_acquire);
    }
    void set_released(std::uint64_t order) noexcept {
        participants_.own_row().released.store(order, std::memory_order_release);
    }
    // With durability=node: the log is on its device up to `end` (log::log_position). Saves the drainer a sync.
    void synced(std::uint64_t end) noexcept { participants_.own_row().synced.store(end, std::memory_order_release); }

    // For participants that do not drain. Asks the drainer to drain all records. Returns once `released` is above
    // `seen` or a short time has passed; check again then. Fails if the drainer has failed or died.
    [[nodiscard]] Status wait_for_room(std::uint64_t seen);
    // For participants that do not drain. Asks the drainer to drain all records, and returns once no record below
    // `below` is needed. Fails as `wait_for_room` does.
    [[nodiscard]] Status drain_below(std::uint64_t below);
    // For several nodes. Returns once the drainer has drained all bytes that were staged when the call began, by this
    // participant or by one that it has synchronised with. Fails if the drainer has failed or died.
    [[nodiscard]] Status await_drained();

    // The records that have been appended so far.
    struct Arrived {
        std::uint64_t bytes = UINT64_MAX, tickets = UINT64_MAX;   // equals no real count
        friend bool operator==(const Arrived&, const Arrived&) = default;
    };
    [[nodiscard]] Arrived arrived() const noexcept;
    // Returns true if the drainer should read the logs now. `seen`: the value of `arrived` before the last `poll`. If
    // it is unchanged, a `poll` that left records is not repeated, unless a participant waits.
    [[nodiscard]] bool is_worth_following(const Arrived& seen) const noexcept;

  private:
    Participants& participants_;
};

}   // namespace forebay::group
