// This participant's own log, as the group sees it.
//
// Thread-safety: `set_released` under the file's lock, the rest from any thread. Blocking: `wait_for_room`,
// `drain_below` and `await_drained`.
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

    // For the open records of the log.
    [[nodiscard]] log::Sharing sharing() const noexcept;
    // The participant's index.
    [[nodiscard]] std::uint64_t index() const noexcept { return participants_.setup().self; }

    // `segment` has become the newest of this log, as number `order`. It carries its first record.
    void adopted(const log::Segment& segment, std::uint64_t order) noexcept;
    // Records with these parts are visible. Wakes the drainer when it should look at them. With several nodes the
    // drainer calls this for its own records too: other nodes must be able to ask for bytes that are not drained yet.
    void appended(std::span<const log::FileLog::Part> parts) noexcept;
    // Segments of an order below this one are free: none of their bytes is needed.
    [[nodiscard]] std::uint64_t released() const noexcept {
        return participants_.own_row().released.load(std::memory_order_acquire);
    }
    // For the drainer.
    void set_released(std::uint64_t order) noexcept {
        participants_.own_row().released.store(order, std::memory_order_release);
    }
    // With durability=node: the log is on its device up to `end` (log::log_position). Saves the drainer a sync.
    void synced(std::uint64_t end) noexcept { participants_.own_row().synced.store(end, std::memory_order_release); }

    // Not for the drainer. Asks it to drain everything, and returns once `released` is above `seen` or a moment has
    // passed: look again. Fails if the drainer cannot drain any more, or has died.
    [[nodiscard]] Status wait_for_room(std::uint64_t seen);
    // Not for the drainer. Asks it to drain everything, and returns once no record below `below` is needed. Fails as
    // `wait_for_room` does.
    [[nodiscard]] Status drain_below(std::uint64_t below);
    // Several nodes only. Returns once the drainer has drained everything that this participant, or one that it has
    // synchronised with, had staged when the call began. Fails if the drainer cannot, or has died.
    [[nodiscard]] Status await_drained();

    // Whether the drainer has to look at the logs now.
    [[nodiscard]] bool is_worth_following() const noexcept;

  private:
    Participants& participants_;
};

}   // namespace forebay::group
