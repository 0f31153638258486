// Encodes and decodes the segment and record headers of the staging log.
// docs/log-format.md is the specification; this is its only implementation. All functions are pure. Decoders accept
// hostile input: they check every bound and never read outside the given bytes.
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
inline constexpr std::uint64_t kCheckedPayloadMax = 64 * 1024;   // larger payloads: checksum only with durability=node

enum class RecordKind : std::uint8_t { kOpen = 1, kData, kTruncate, kCommit, kClose, kBypass };
enum class DataClass : std::uint8_t { kRaw = 0, kMetadata = 1 };

// A position in a log; later positions are greater. `tail` is above 0 and at most `segment_bytes`.
[[nodiscard]] constexpr std::uint64_t log_position(std::uint64_t order, std::uint64_t tail,
                                                   std::uint64_t segment_bytes) noexcept {
    return order * segment_bytes + tail;
}

struct SegmentHeader {
    std::uint64_t segment_bytes = 0;
    area::ProcessIdentity process;
    std::uint64_t log = 0;
    std::uint64_t order = 0;
    std::uint32_t taken = 0;   // how often the segment was taken; makes each use distinct
    std::uint64_t use =
        0;   // decoded only: the header's checksum, which no other use of a segment has. Its records are sealed with it
    std::uint64_t tail = 0;          // decoded only; the owner stores it with release order
    std::uint64_t needed_from = 0;   // decoded only: a durable log has given back the segments of a lower order
};

// Writes all fields but tail, generation, `needed_from` and the target's state. It writes the magic last, so that the
// segment is free if the process dies before. `at` has kSegmentHeaderBytes bytes and is aligned to 8.
void encode(const SegmentHeader& header, std::span<std::byte> at) noexcept;

// Errors: kNotFound: the segment is free. kCorrupt, or kUnsupported (version): do not read on.
[[nodiscard]] Result<SegmentHeader> decode_segment_header(std::span<const std::byte> segment);

// The segment size in a header, of a segment in use or given back (which clears the magic only).
// Errors: kNotFound: there is no header; kUnsupported: the header has another version.
[[nodiscard]] Result<std::uint64_t> decode_segment_bytes(std::span<const std::byte> header);
// The segment size in a header that a process was writing when it died; 0 if the header does not tell. Such a header
// mixes two uses of the segment and has no valid checksum. So trust it for the first segment only.
[[nodiscard]] std::uint64_t segment_bytes_being_begun(std::span<const std::byte> header) noexcept;

// The argument of a bypass record whose range has no record in any log.
inline constexpr std::uint64_t kSupersedesNothing = 1;

struct RecordHeader {
    RecordKind kind = RecordKind::kData;
    DataClass data_class = DataClass::kRaw;
    bool payload_checked = false;
    std::uint64_t sequence = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t argument = 0;
    std::uint64_t time_ns = 0;   // in an open record: of the last commit, 0 if there was none
    std::uint64_t payload_checksum = 0;
    bool durable = false;   // in an open record: all data was on the device before a commit record was appended
};

// The bytes that a record takes in a segment, padding included.
[[nodiscard]] constexpr std::uint64_t record_bytes(std::uint64_t extents, std::uint64_t payload_bytes) noexcept {
    const std::uint64_t bytes = kRecordHeaderBytes + extents * kExtentBytes + payload_bytes;
    return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}
[[nodiscard]] constexpr std::uint64_t payload_offset(std::uint64_t extents) noexcept {
    return kRecordHeaderBytes + extents * kExtentBytes;
}

// Writes header and extent table to `at`, of at least payload_offset(extents.size()) bytes. `use` is the segment's.
void encode(const RecordHeader& header, std::span<const ByteRange> extents, std::uint64_t use,
            std::span<std::byte> at) noexcept;

struct DecodedRecord {
    RecordHeader header;
    std::vector<ByteRange> extents;
    std::span<const std::byte> payload;
    std::uint64_t bytes = 0;   // with padding: the offset of the next record
};

// kVerify compares a payload with its checksum, if it has one. kTrust is for records of a live process.
enum class PayloadCheck : std::uint8_t { kVerify, kTrust };
// The number of bytes, at most `limit`, that decode_record reads of a record with this header of kRecordHeaderBytes
// bytes. The payload counts if it has a checksum, or in an open record.
[[nodiscard]] std::uint64_t bytes_looked_at(std::span<const std::byte> header, std::uint64_t limit) noexcept;
// Decodes the record at the beginning of `bytes`, which end at the segment's tail. kCorrupt says which field is wrong;
// a record from an earlier use of the segment is corrupt too.
[[nodiscard]] Result<DecodedRecord> decode_record(std::span<const std::byte> bytes, std::uint64_t use,
                                                  PayloadCheck check = PayloadCheck::kVerify);

// Tells which logs belong together.
struct Sharing {
    enum class Kind : std::uint64_t {
        kAlone,             // one process writes the file
        kOneNode,           // one node, several processes, each with a log of its own
        kSeveralNodes,      // several nodes: nothing is held back for a commit
        kConsistentNodes,   // several nodes with undo journals (undo/undo_format.h): nothing is to be replayed
    };
    Kind kind = Kind::kAlone;
    std::uint64_t group = 0;    // one number for all logs of a file on a node, and its board; 0 with kAlone
    std::uint32_t member = 0;   // in a durable group: the member that owns the log
    friend bool operator==(const Sharing&, const Sharing&) = default;
};

// Distinguishes files that had the same inode number one after the other. 0 where the file system does not tell.
struct Birth {
    std::uint64_t time_ns = 0, generation = 0;
    friend bool operator==(const Birth&, const Birth&) = default;
    // True only if the two are certainly different files.
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
