// Reads the records of one segment in order, and tells where they end and why. All readers of records use this cursor:
// group/log_follower.h on logs of living processes, log/scan.h on logs of dead ones. It stands at a *position*, where
// the next record begins. The *published end* is the segment's tail. `look` finds one of four things at the position:
//
//   kRecord      A valid record below the published end. `advance` steps behind it.
//   kEnd         The published end. The next record is not written yet; a look with a higher end may find it. The
//                cursor reads no byte behind the end, even if a whole record is there.
//   kTorn        Damage, zeros, a record that the published end cuts off, or one of an earlier use of the segment.
//                The log continues in the next segment only; `search` finds records of this one behind the damage.
//   kUnreadable  Bytes that `load` cannot load now.
//
// Invariants:
//   - `look` does not move the cursor, so the caller may look again after any result and after std::bad_alloc.
//   - All records before the position were valid, but for those that `search` passed over.
//   - A valid record ends at the published end or before. Its header checksum is right, seeded with the segment's use;
//     kind, class, flags, extents and lengths are within bounds. With kVerify its payload has its checksum, if any.
//   - The first record of a segment is an open record, and no other one is.
//   - Sequence numbers are not compared: compaction keeps them, so within a segment they fall and have gaps. The caller
//     follows the order of segments.
//   - A living process may reuse a segment during a look, and raises its generation first. So records count only after
//     `confirm` found the generation unchanged. Atomics guard tail, use and generation, not the records' bytes.
//   - An unreadable generation tells nothing about a reuse, so `confirm` returns another error for it.
//
// Ownership: the cursor holds copies; only payloads lie in the segment's bytes. Not thread-safe. Blocks on `load`.
#pragma once

#include <cstdint>
#include <optional>

#include "io/file.h"
#include "log/format.h"

namespace forebay::log {

// The bytes of a segment from its header on: mapped memory, or a buffer of a part of a file. Only loaded bytes count.
class SegmentBytes {
  public:
    virtual ~SegmentBytes() = default;
    [[nodiscard]] io::Bytes bytes() const noexcept { return bytes_; }
    // Loads [begin, end), which lies in `bytes`. From one call to the next, `begin` never falls.
    virtual Status load(std::uint64_t begin, std::uint64_t end) = 0;
    // The generation at this instant. It is constant in a dead process's segment. An error: it is unreadable now.
    [[nodiscard]] virtual Result<std::uint64_t> generation() const { return std::uint64_t{0}; }

  protected:
    explicit SegmentBytes(io::Bytes bytes) noexcept : bytes_(bytes) {}

  private:
    const io::Bytes bytes_;
};

class RecordCursor {
  public:
    enum class Found : std::uint8_t { kRecord, kEnd, kTorn, kUnreadable };
    struct Opening {
        RecordHeader header;
        OpenPayload target;
    };

    // Begins behind the segment's header, which has `use`. In a living process's segment, load the generation first.
    explicit RecordCursor(std::uint64_t use, std::uint64_t generation = 0) noexcept
        : use_(use), generation_(generation) {}

    // `end` is the published end.
    [[nodiscard]] Found look(SegmentBytes& segment, std::uint64_t end, PayloadCheck check);
    // The record that the last look found. The caller may take its extents.
    [[nodiscard]] DecodedRecord& record() noexcept { return record_; }
    [[nodiscard]] std::uint64_t payload_position() const noexcept { return payload_position_; }
    // kCorrupt: why the last look found kTorn. Otherwise the error of `load`.
    [[nodiscard]] const Status& why() const noexcept { return why_; }
    void advance() noexcept { position_ += record_.bytes; }

    // Passes over torn bytes to the next record of any kind, or to the end. Does not verify payloads.
    [[nodiscard]] Found search(SegmentBytes& segment, std::uint64_t end);

    // Unless ok, the records found since the last call are void. kNotFound: the segment was reused. Otherwise the error
    // of `generation`; the segment may be as it was.
    [[nodiscard]] Status confirm(const SegmentBytes& segment) const;
    // Finds the records from `position` on again. The cursor has stood there.
    void return_to(std::uint64_t position) noexcept { position_ = position; }

    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
    // The open record; none before it was found.
    [[nodiscard]] const std::optional<Opening>& opening() const noexcept { return opening_; }

  private:
    std::uint64_t use_, generation_;
    std::uint64_t position_ = kSegmentHeaderBytes;
    bool searching_ = false;
    DecodedRecord record_;
    std::uint64_t payload_position_ = 0;
    Status why_;
    std::optional<Opening> opening_;
};

}   // namespace forebay::log
