// The bytes of the staging log: encoding and decoding of segment and record headers.
//
// docs/log-format.md is the specification; this is its only implementation. Everything is pure.
// Decoders accept hostile input: they check every bound and never read outside the given bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "area/process.h"
#include "base/status.h"
#include "extent/range.h"
#include "log/target_state.h"

namespace forebay::log {

inline constexpr std::size_t kSegmentHeaderBytes = kStateOffset + 2 * kStateBytes;
inline constexpr std::size_t kOrderOffset = 64;
inline constexpr std::size_t kUseOffset = 72;
inline constexpr std::size_t kTailOffset = 80;
inline constexpr std::size_t kGenerationOffset = 88;
inline constexpr std::size_t kNeededOffset = 96;
inline constexpr std::size_t kRecordHeaderBytes = 64;
inline constexpr std::size_t kExtentBytes = 16;
inline constexpr std::size_t kRecordAlignment = 64;
inline constexpr std::uint64_t kCheckedPayloadMax = 64 * 1024;   // larger ones: durability=node

enum class RecordKind : std::uint8_t { kOpen = 1, kData, kTruncate, kCommit, kClose, kBypass };
enum class DataClass : std::uint8_t { kRaw = 0, kMetadata = 1 };

// A place in a log, rising. `tail` is above 0 and at most `segment_bytes`.
[[nodiscard]] constexpr std::uint64_t log_position(std::uint64_t order, std::uint64_t tail,
                                                   std::uint64_t segment_bytes) noexcept {
    return order * segment_bytes + tail;
}

struct SegmentHeader {
    std::uint64_t segment_bytes = 0;
    area::ProcessIdentity process;
    std::uint64_t log = 0;
    std::uint64_t order = 0;
    std::uint32_t taken = 0;   // how often the segment was: makes each use another one
    std::uint64_t use =
        0;   // decoded only: the header's checksum, which no other use of a segment has. Its records are sealed with it
    std::uint64_t tail = 0;          // decoded only; the owner stores it with release order
    std::uint64_t needed_from = 0;   // decoded only: segments of a lower order were given back; of a durable log
};

// Writes all but tail, generation, `needed_from` and the target's state; the magic last, so that the segment is free if
// the process dies meanwhile. `at` has kSegmentHeaderBytes bytes, and is aligned to 8.
void encode(const SegmentHeader& header, std::span<std::byte> at) noexcept;

// kNotFound: the segment is free. kCorrupt, kUnsupported (version): do not read on.
[[nodiscard]] Result<SegmentHeader> decode_segment_header(std::span<const std::byte> segment);

// The segment size that a header states, be the segment in use or given back (which clears the magic only).
// kNotFound: there is no header; kUnsupported: of another version.
[[nodiscard]] Result<std::uint64_t> decode_segment_bytes(std::span<const std::byte> header);
// The same of a header that was being written when the process died: in part of this use of the segment, in part of the
// one before, and without the magic. No checksum can be right: to be believed of the first segment only. 0: it does not
// say.
[[nodiscard]] std::uint64_t segment_bytes_being_begun(std::span<const std::byte> header) noexcept;

// The argument of a bypass record of a range that no log has a record of.
inline constexpr std::uint64_t kSupersedesNothing = 1;

struct RecordHeader {
    RecordKind kind = RecordKind::kData;
    DataClass data_class = DataClass::kRaw;
    bool payload_checked = false;
    std::uint64_t sequence = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t argument = 0;
    std::uint64_t time_ns = 0;   // of an open record: of the last commit, 0 if there was none yet
    std::uint64_t payload_checksum = 0;
    bool durable = false;   // of an open record: everything was on the device before a commit record was appended
};

// Bytes a record takes in a segment, padding included.
[[nodiscard]] constexpr std::uint64_t record_bytes(std::uint64_t extents, std::uint64_t payload_bytes) noexcept {
    const std::uint64_t bytes = kRecordHeaderBytes + extents * kExtentBytes + payload_bytes;
    return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}
[[nodiscard]] constexpr std::uint64_t payload_offset(std::uint64_t extents) noexcept {
    return kRecordHeaderBytes + extents * kExtentBytes;
}

// Writes header and extent table to `at`, which has payload_offset(extents.size()) bytes or more. `use`: of the segment
// that it is for.
void encode(const RecordHeader& header, std::span<const ByteRange> extents, std::uint64_t use,
            std::span<std::byte> at) noexcept;

struct DecodedRecord {
    RecordHeader header;
    std::vector<ByteRange> extents;
    std::span<const std::byte> payload;
    std::uint64_t bytes = 0;   // including padding: where the next one starts
};

// The record at the beginning of `bytes`, which end at the segment's tail. kCorrupt says what is wrong; a record that
// an earlier use of the segment has left is wrong too. A present payload checksum is verified, unless the record's
// process is trusted to be at work.
enum class PayloadCheck : std::uint8_t { kVerify, kTrust };
// Whether `header` has the magic of a record.
[[nodiscard]] bool begins_like_a_record(std::span<const std::byte> header) noexcept;
// How far from its beginning decode_record would look into a record that begins with `header`, of kRecordHeaderBytes
// bytes: not into a payload without a checksum. Open records are looked into in any case. At most `limit`.
[[nodiscard]] std::uint64_t bytes_looked_at(std::span<const std::byte> header, std::uint64_t limit) noexcept;
[[nodiscard]] Result<DecodedRecord> decode_record(std::span<const std::byte> bytes, std::uint64_t use,
                                                  PayloadCheck check = PayloadCheck::kVerify);

// Whose logs belong together.
struct Sharing {
    enum class Kind : std::uint64_t {
        kAlone,             // one process writes the file
        kOneNode,           // several processes of one node, each with a log of its own
        kSeveralNodes,      // the same on several nodes: nothing was held back for a commit
        kConsistentNodes,   // the same, with undo journals (undo/undo_format.h): nothing is to be replayed
    };
    Kind kind = Kind::kAlone;
    std::uint64_t group = 0;    // the same in all logs of one node for one file, and on its board; 0 for one alone
    std::uint32_t member = 0;   // of a durable group: whose log it is
    friend bool operator==(const Sharing&, const Sharing&) = default;
};

// What does not come again when an inode number is given to another file. Each is 0 where the file system does not
// tell.
struct Birth {
    std::uint64_t time_ns = 0, generation = 0;
    friend bool operator==(const Birth&, const Birth&) = default;
    // Certainly two files, also if their device and inode are the same.
    [[nodiscard]] bool differs(const Birth& other) const noexcept {
        return (time_ns != 0 && other.time_ns != 0 && time_ns != other.time_ns) ||
               (generation != 0 && other.generation != 0 && generation != other.generation);
    }
};

// Payload of an open record.
struct OpenPayload {
    std::uint64_t device = 0, inode = 0;
    std::uint64_t commit_sequence = 0;
    Sharing sharing;
    std::string path;
    Birth born{};
};
[[nodiscard]] std::vector<std::byte> encode(const OpenPayload& payload);
[[nodiscard]] Result<OpenPayload> decode_open_payload(std::span<const std::byte> payload);

}   // namespace forebay::log
