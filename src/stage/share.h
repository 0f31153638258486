// A staged file that several processes of the node write together, as one of them sees the others.
//
// Each process, a participant, appends to a log of its own. One of them, the drainer, follows the logs of
// all and writes the target; the others keep no account of what is staged until they read. What connects
// them is memory that all have mapped, and the logs themselves: a record exists for everybody as soon as
// its segment's tail says so. `node::NodeShare` implements this; tests may do it otherwise.
//
// A participant's share has three sides:
//   RecordOrder   the order of records in all logs, and those that others have appended
//   SharedRoom    which segments are needed, who waits for room, and what makes that certain on the devices
//   SharedTarget  what the participants tell each other of the target: commits, pace, failures
//
// Thread-safety: `find`, `visit_found`, `followed`, `restart`, `recycle`, `all_drained` and `set_released` are called
// under the staged file's lock, the rest from any thread. Blocking: `wait_for_room`, and what says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "board/statement.h"
#include "board/writes_beside.h"
#include "drain/target_pace.h"
#include "extent/range.h"
#include "log/file_log.h"
#include "log/format.h"
#include "log/segment_pool.h"

namespace forebay::stage {

class RecordOrder {
  public:
    virtual ~RecordOrder() = default;

    // Rising within the node, for this file. When `published` is called the record that it is for has been
    // appended and, by the drainer, noted for its index: until then nobody takes it for granted that it has
    // seen all lower numbers.
    virtual std::uint64_t next_sequence() noexcept = 0;
    virtual void published() noexcept = 0;
    // Records that have been appended, here or by another participant, have a lower number.
    [[nodiscard]] virtual std::uint64_t present_below() const noexcept = 0;
    // The drainer has followed every record with a lower number, and may drain it: whatever comes later is newer.
    [[nodiscard]] virtual std::uint64_t complete_below() const noexcept = 0;
    // Nothing but later records is left to drain: the file is to be looked at again once there is more.
    virtual void await_complete() noexcept = 0;
    // It has rung for itself since it last followed: what is found now must be taken in, or it would ring again and
    // again.
    [[nodiscard]] virtual bool completeness_awaited() const noexcept = 0;
    // A log of another participant that could not be read: what is in it is not known, and stays there. Or `lost`.
    [[nodiscard]] virtual const Status& damage() const noexcept = 0;
    // What the participants have in common cannot be reached any more: this one neither sees the others nor do they see
    // it. Ok: it can. A number that was drawn before a look that says so must not be used. Thread-safe.
    [[nodiscard]] virtual const Status& lost() const noexcept = 0;

    // ---- the logs of all ------------------------------------------------------------------------

    // A record. What is dead (log/frontier.h) and holds data comes as if it were a through record.
    struct Record {
        log::RecordKind kind = log::RecordKind::kData;
        log::DataClass data_class = log::DataClass::kRaw;
        std::uint64_t sequence = 0;
        std::uint64_t argument = 0;
        std::span<const ByteRange> extents;
        log::Segment* segment = nullptr;   // a view that the share owns; its bytes may be used again
        std::uint64_t payload = 0;         // offset in the segment
        std::uint64_t generation = 0;      // of the segment when the record was read
        std::uint64_t bytes = 0;           // of the payload
    };
    using Visit = std::function<void(const Record&)>;
    // Finds what was appended since the last call: for the drainer in the logs of the others, else in all logs.
    // Everything that was complete when the call began is found, and whatever its writer did before is either found
    // too or noted by the drainer itself.
    // Returns false if what was visited earlier may not be relied on any more: forget it, restart, and call again.
    virtual bool find() = 0;
    // By the one who drains, after `find`: the payload that is new is added to `pending`, and only then counts as
    // found. So whoever adds up from outside what is not in the file misses none.
    virtual void count_found(std::atomic<std::uint64_t>& pending) noexcept = 0;
    // Payload that was counted so, and is not visited yet.
    [[nodiscard]] virtual std::uint64_t found_bytes() const noexcept = 0;
    // Visits what was found, in order of sequence number; where a marker (truncate, commit) is, everything before it
    // has been visited before. Can be repeated; what a record says stays valid until `followed`.
    virtual void visit_found(const Visit& visit) = 0;
    // All that was found has been taken in; otherwise it is found once more.
    virtual void followed() = 0;
    // Not for the drainer. Forgets what was found, and begins again with all that is not released.
    virtual void restart() = 0;
};

class SharedRoom {
  public:
    virtual ~SharedRoom() = default;

    // What the open records of the file's logs say.
    [[nodiscard]] virtual log::Sharing sharing() const noexcept = 0;
    // The place of this participant's log among those of the file.
    [[nodiscard]] virtual std::uint64_t lane() const noexcept = 0;

    // ---- this participant's own log -------------------------------------------------------------

    // `segment` has become the newest of this log, as number `order`. It carries its first record.
    virtual void adopted(const log::Segment& segment, std::uint64_t order) noexcept = 0;
    // Records with these parts are visible; wakes the drainer when it should look at them. With several nodes
    // the drainer says so of its own records too: other nodes must be able to ask for what is not drained yet.
    virtual void appended(std::span<const log::FileLog::Part> parts) noexcept = 0;
    // Segments of an order below this one are free: nothing in them is needed any more.
    [[nodiscard]] virtual std::uint64_t released() const noexcept = 0;
    // The drainer says so of its own log.
    virtual void set_released(std::uint64_t order) noexcept = 0;
    // Not for the drainer. Asks it to drain everything, and returns once `released` has risen beyond `seen`
    // or a moment has passed: look again. Fails if the drainer cannot drain any more, or has died.
    virtual Status wait_for_room(std::uint64_t seen) = 0;
    // Not for the drainer. Asks it to drain everything, and returns once no record below `below` is needed any more.
    // Fails as `wait_for_room` does.
    virtual Status drain_below(std::uint64_t below) = 0;

    // ---- the drainer, for all logs --------------------------------------------------------------

    // It has nothing under way: if somebody still waits for room, it has to look for more to drain.
    virtual void at_rest() noexcept = 0;
    // Everything that has been followed is in the target.
    virtual void all_drained() noexcept = 0;
    // What it knows of the order of its own records.
    struct Account {
        log::Frontier needed;        // by its own log
        std::uint64_t drained = 0;   // see log::SegmentOrder::may_go
        bool idle = false;           // its oldest segment could go but for the frontier
        std::uint64_t cut = 0;       // the record of a truncation; the frontier moves once it has passed it
    };
    // Moves the frontier, and gives back the others' oldest segments that hold nothing needed (no live bytes, no pins)
    // and may go. Nothing: its own segments have to stay.
    virtual std::optional<log::Frontier> recycle(const Account& account) noexcept = 0;

    // ---- with durability=node: docs/log-format.md, "Durable logs of several processes" ----------

    [[nodiscard]] virtual bool durable() const noexcept = 0;
    // This participant's log is on its device up to `end` (log::log_position). Not needed: it saves the drainer a sync.
    virtual void synced(std::uint64_t end) noexcept = 0;
    // The rest is for the drainer. Under the staged file's lock: of the others' logs what was followed; the frontier as
    // it is. The caller puts in what concerns its own log, and the commit.
    [[nodiscard]] virtual board::Statement survey() const = 0;
    // The same lock. Puts into `plan` the next frontier, and what of the others' logs would be needed then; with that
    // the caller looks at its own. False if the frontier cannot be told now.
    virtual bool plan_release(const Account& account, board::Statement& plan) = 0;
    // Without the lock, one at a time. Blocks on devices: the others' logs up to the ends that are stated, then the
    // statement.
    virtual Status state(const board::Statement& statement) = 0;
    // Under the lock: what `plan_release` has planned, and `state` has made certain.
    virtual void release(const board::Statement& stated) noexcept = 0;
    // Without the lock. Blocks. The target has everything, durably: no record of any log counts any more.
    virtual Status retire() = 0;
};

class SharedTarget {
  public:
    virtual ~SharedTarget() = default;

    [[nodiscard]] virtual std::uint64_t participants() const noexcept = 0;
    // The file's size at the last commit. Set by the drainer.
    [[nodiscard]] virtual std::uint64_t committed_size() const noexcept = 0;
    virtual void set_committed_size(std::uint64_t size) noexcept = 0;
    // Of a target that is as fast as the log: what draining drain::TargetPace::kBytes that one of the participants
    // stages costs the node, in ns; more where more of them stage. Nothing: it is waited for, or nobody knows:
    // everything is staged. Set by the drainer.
    [[nodiscard]] virtual std::optional<std::uint64_t> memory_pace() const noexcept = 0;
    virtual void set_memory_pace(std::optional<std::uint64_t> ns) noexcept = 0;
    // Writes past the log, those of all participants.
    [[nodiscard]] virtual board::WritesBeside& beside() noexcept = 0;
    // Notes that bytes of these parts may be staged from now on, until the file is closed.
    virtual void note_staged(std::span<const log::FileLog::Part> parts) noexcept = 0;
    // The first part of the range where nothing is staged, as far as writes go that have ended before: those that are
    // under way at the same time may come before or after. May be empty although there is one. Look at `lost`
    // afterwards.
    [[nodiscard]] virtual ByteRange first_unstaged(ByteRange range) const noexcept = 0;
    // The drainer cannot write the target: nobody need wait for room. With `through` writes bypass the log
    // once the drainer has called `let_through`: it has no target write under way any more, and begins none before the
    // close.
    virtual void fail(int sys_errno, bool through) noexcept = 0;
    virtual void let_through() noexcept = 0;
    [[nodiscard]] virtual bool goes_through() const noexcept = 0;
};

class Share : public RecordOrder, public SharedRoom, public SharedTarget {
  public:
    // True in the one participant that drains.
    [[nodiscard]] virtual bool drains() const noexcept = 0;
};

// A number that was drawn. It is published at the end at the latest: one that came to no record, for want of memory,
// must not be waited for.
class DrawnNumber {
  public:
    explicit DrawnNumber(RecordOrder* order) noexcept : order_(order) {}   // null: the file is not shared
    ~DrawnNumber() { publish(); }
    DrawnNumber(const DrawnNumber&) = delete;
    DrawnNumber& operator=(const DrawnNumber&) = delete;

    void publish() noexcept {
        if (order_ != nullptr) std::exchange(order_, nullptr)->published();
    }
    // Somebody else has published it.
    void forget() noexcept { order_ = nullptr; }

  private:
    RecordOrder* order_;
};

}   // namespace forebay::stage
