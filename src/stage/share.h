// A staged file that several processes of the node write together, as one of them sees the others.
//
// Each process, a participant, appends to a log of its own. One of them, the drainer, follows the logs of
// all and writes the target; the others keep no account of what is staged until they read. What connects
// them is memory that all have mapped, and the logs themselves: a record exists for everybody as soon as
// its segment's tail says so. `node::NodeShare` implements this; tests may do it otherwise.
//
// Thread-safety: `follow`, `recycle` and `set_released` are called under the staged file's lock, the rest
// from any thread. Blocking: `wait_for_room` only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "extent/range.h"
#include "log/file_log.h"
#include "log/format.h"
#include "log/segment_pool.h"

namespace forebay::stage {

class Share {
  public:
    virtual ~Share() = default;

    // True in the one participant that drains.
    [[nodiscard]] virtual bool drains() const noexcept = 0;

    // Rising within the node, for this file. The record that it is for has been appended when `published` is
    // called: until then nobody takes it for granted that it has seen all lower numbers.
    virtual std::uint64_t next_sequence() noexcept = 0;
    virtual void published() noexcept = 0;
    // Records below this number no longer count, in whichever log: all of them have been drained.
    [[nodiscard]] virtual std::uint64_t dead_below() const noexcept = 0;
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

    // ---- the logs of all ------------------------------------------------------------------------

    struct Record {
        log::RecordKind kind = log::RecordKind::kData;
        log::DataClass data_class = log::DataClass::kRaw;
        std::uint64_t sequence = 0;
        std::uint64_t argument = 0;
        std::span<const ByteRange> extents;      // valid during the visit
        log::Segment* segment = nullptr;         // a view that the share owns; its bytes may be used again
        std::uint64_t payload = 0;               // offset in the segment
        std::uint64_t generation = 0;            // of the segment when the record was read
    };
    using Visit = std::function<void(const Record&)>;
    // Visits what was appended since the last call, in order of sequence number: for the drainer the logs
    // of the others, else all logs. Everything that was complete when the call began is visited; where a
    // marker (truncate, commit) is, everything before it has been visited before.
    // Returns false if what was visited earlier may not be relied on any more: forget it, and call again.
    virtual bool follow(const Visit& visit) = 0;
    // Not for the drainer. Forgets what was followed, and begins again with all that is not released.
    virtual void restart() = 0;
    // The drainer gives back the others' oldest segments that hold nothing needed (no live bytes, no pins).
    virtual void recycle() noexcept = 0;
    // The drainer: everything that has been followed is in the target.
    virtual void all_drained() noexcept = 0;
    // The drainer cannot write the target: nobody need wait for room.
    virtual void fail(int sys_errno) noexcept = 0;
};

}   // namespace forebay::stage
