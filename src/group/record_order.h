// The order of the records in all logs of a group, and the records that other participants have appended.
// Thread-safety: the file's lock covers `find`, `count_found`, `found_bytes`, `visit_found`, `followed` and `restart`.
// Any thread may make the other calls. Blocking: on page faults of the logs only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "extent/range.h"
#include "group/log_follower.h"
#include "group/participants.h"
#include "log/format.h"
#include "log/frontier.h"

namespace forebay::group {

// The logs of all participants, by index. A process does not follow its own log.
using LogFollowers = std::vector<std::unique_ptr<LogFollower>>;

class RecordOrder {
  public:
    RecordOrder(Participants& participants, LogFollowers& logs) noexcept : participants_(participants), logs_(logs) {}

    // Draws the next number. Numbers rise within the node, for this file. Call `published` after the record is appended
    // and, in the drainer, noted for its index. Until then participants expect the record.
    [[nodiscard]] std::uint64_t next_sequence() noexcept;
    void published() noexcept;
    // Every appended record has a lower number.
    [[nodiscard]] std::uint64_t present_below() const noexcept { return participants_.header().sequence.load(); }
    // The drainer has followed every record with a lower number and may drain it. All other records are newer.
    [[nodiscard]] std::uint64_t complete_below() const noexcept { return complete_below_; }
    // Has the drainer's doorbell ring once more records are complete. Call it when only incomplete records remain.
    // Until then the listener checks whether the processes with a drawn number live.
    void await_complete() noexcept;
    // Returns true if the doorbell rang for `await_complete` since `followed`. The doorbell rings again unless the
    // caller takes in the records that `find` finds.
    [[nodiscard]] bool completeness_awaited() const noexcept { return completeness_awaited_; }
    // Reports that the other participants have stopped writing, so every record is complete.
    void note_others_stopped() noexcept { others_stopped_ = true; }
    // Clears the drawn numbers of processes that died before they published their records.
    void forget_numbers_of_the_dead() noexcept;

    // An error: another participant's log was unreadable, or the board is lost. Unread records stay in that log.
    [[nodiscard]] const Status& damage() const noexcept {
        return participants_.lost().is_ok() ? damage_ : participants_.lost();
    }
    // A data record that is dead (log/frontier.h) has kind kBypass: older bytes of its place are void, and it has none.
    using Record = LogFollower::Record;
    using Visit = std::function<void(const Record&)>;
    // Finds the records that were appended since the last call. The drainer reads the other logs; its own records are
    // in index/own_records.h. Other participants read all logs. `find` returns every record that was complete when the
    // call began, and all earlier records of the same participant. Returns false if earlier visits are invalid. The
    // caller must then forget them, restart, and call again. INVARIANT: `find` never returns false in the drainer. The
    // drainer does not follow its own log, so it could not find its own records again. A segment that was used again
    // before the drainer released it is damage.
    [[nodiscard]] bool find();
    // For the drainer, after `find`: adds the new payload to `pending`, and only then counts it as found. So a process
    // that sums up pending bytes from outside misses none.
    void count_found(std::atomic<std::uint64_t>& pending) noexcept;
    // Payload that was counted and not visited yet.
    [[nodiscard]] std::uint64_t found_bytes() const noexcept { return found_bytes_; }
    // Visits the found records by rising number, those before a marker (truncate, commit) before the marker. May be
    // repeated. A record's contents stay valid until `followed`.
    void visit_found(const Visit& visit);
    // Drops the found records after the caller took them in. Without this call `visit_found` shows them again.
    void followed();
    // For participants that do not drain. Drops the found records, and begins again with all that are not released.
    void restart();

  private:
    [[nodiscard]] bool read_cut();
    void forget_records() noexcept;
    [[nodiscard]] std::uint64_t visible_below() const noexcept;

    Participants& participants_;
    LogFollowers& logs_;
    std::vector<Record> records_;     // found, and not taken in
    std::uint64_t new_bytes_ = 0;     // payload of the records that the last `find` found
    std::uint64_t found_bytes_ = 0;   // payload of the first `counted_` records
    std::size_t counted_ = 0;
    bool completeness_awaited_ = false;
    std::uint64_t released_at_restart_ = 0;   // segments, of all logs
    log::Frontier dead_at_restart_{0, 0};     // lower records are dead
    // The last `find` found all records with a ticket up to `tickets`, and all with a number below `below`.
    struct Found {
        std::uint64_t tickets = 0, below = 0;
    };
    Found found_;
    std::uint64_t complete_below_ = 0;
    std::atomic<bool> others_stopped_{false};
    Status damage_;
};

// A drawn sequence number. The destructor publishes it at the latest: no process waits for a record that lacked memory.
class DrawnNumber {
  public:
    explicit DrawnNumber(RecordOrder* order) noexcept : order_(order) {}   // null if one process writes the file
    ~DrawnNumber() { publish(); }
    DrawnNumber(const DrawnNumber&) = delete;
    DrawnNumber& operator=(const DrawnNumber&) = delete;

    void publish() noexcept {
        if (order_ != nullptr) std::exchange(order_, nullptr)->published();
    }
    // Call it if other code has published the number.
    void forget() noexcept { order_ = nullptr; }

  private:
    RecordOrder* order_;
};

}   // namespace forebay::group
