#include "log/format.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"

namespace forebay::log {

namespace {

constexpr std::uint64_t kSegmentMagic = 0x3147455359414246;   // "FBAYSEG1" in memory
constexpr std::uint32_t kRecordMagic = 0x43455246;            // "FREC" in memory
constexpr std::uint32_t kVersion = 5;
constexpr std::size_t kRecordChecksumOffset = 56;
constexpr std::uint16_t kFlagPayloadChecked = 1;
constexpr std::uint16_t kFlagDurable = 2;
constexpr std::uint16_t kFlagsKnown = kFlagPayloadChecked | kFlagDurable;
constexpr std::size_t kOpenPayloadBytes = 56;   // without the path

// A checksum of the segment's use, a record header's front, and its extent table. Each seeds the next one's checksum.
std::uint64_t header_checksum(const std::byte* header, std::size_t extents, std::uint64_t use) noexcept {
    const std::uint64_t front = XXH3_64bits_withSeed(header, kRecordChecksumOffset, use);
    return XXH3_64bits_withSeed(header + kRecordHeaderBytes, extents * kExtentBytes, front);
}

Status corrupt(std::string what) { return {Code::kCorrupt, std::move(what)}; }

// Checks the fields of a segment's header that its checksum covers.
Status check_segment_header(const std::byte* header) {
    if (load_le<std::uint64_t>(header) != kSegmentMagic) return corrupt("segment magic is wrong");
    if (load_le<std::uint64_t>(header + kUseOffset) != XXH3_64bits(header, kUseOffset))
        return corrupt("segment header checksum is wrong");
    if (const auto version = load_le<std::uint32_t>(header + 8); version != kVersion)
        return {Code::kUnsupported, fmt::format("log format version {} is not {}", version, kVersion)};
    return Status::ok();
}

}   // namespace

// The magic makes a segment in use, so it is written last. Version and size are equal in all uses: readable throughout.
void encode(const SegmentHeader& header, std::span<std::byte> at) noexcept {
    std::array<std::byte, kTailOffset> whole{};
    std::byte* const p = whole.data();
    store_le(p, kSegmentMagic);
    store_le(p + 8, kVersion);
    store_le(p + 12, header.taken);
    store_le(p + 16, header.segment_bytes);
    store_le(p + 24, header.process.pid);
    store_le(p + 32, header.process.start_ticks);
    std::memcpy(p + 40, header.process.boot_id.data(), header.process.boot_id.size());
    store_le(p + 56, header.log);
    store_le(p + kOrderOffset, header.order);
    store_le(p + kUseOffset, XXH3_64bits(p, kUseOffset));
    const std::atomic_ref<std::uint64_t> magic(*reinterpret_cast<std::uint64_t*>(at.data()));
    magic.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::memcpy(at.data() + 8, p + 8, whole.size() - 8);
    magic.store(little_endian(kSegmentMagic), std::memory_order_release);
}

Result<SegmentHeader> decode_segment_header(std::span<const std::byte> segment) {
    if (segment.size() < kSegmentHeaderBytes) return corrupt("segment shorter than its header");
    const std::byte* const p = segment.data();
    if (load_le<std::uint64_t>(p) == 0) return Status(Code::kNotFound, "segment is free");
    FOREBAY_TRY(check_segment_header(p));
    SegmentHeader header;
    header.segment_bytes = load_le<std::uint64_t>(p + 16);
    header.process.pid = load_le<std::uint64_t>(p + 24);
    header.process.start_ticks = load_le<std::uint64_t>(p + 32);
    std::memcpy(header.process.boot_id.data(), p + 40, header.process.boot_id.size());
    header.log = load_le<std::uint64_t>(p + 56);
    header.taken = load_le<std::uint32_t>(p + 12);
    header.order = load_le<std::uint64_t>(p + kOrderOffset);
    header.use = load_le<std::uint64_t>(p + kUseOffset);
    header.tail = load_le<std::uint64_t>(p + kTailOffset);
    header.needed_from = load_le<std::uint64_t>(p + kNeededOffset);
    if (header.segment_bytes != segment.size()) return corrupt("segment size is not the log's");
    if (header.tail < kSegmentHeaderBytes || header.tail > header.segment_bytes)
        return corrupt(fmt::format("segment tail {} is outside the segment", header.tail));
    return header;
}

Result<std::uint64_t> decode_segment_bytes(std::span<const std::byte> header) {
    if (header.size() < kSegmentHeaderBytes) return corrupt("segment shorter than its header");
    std::array<std::byte, kTailOffset> in_use;
    std::memcpy(in_use.data(), header.data(), in_use.size());
    if (load_le<std::uint64_t>(in_use.data()) == 0) store_le(in_use.data(), kSegmentMagic);
    if (Status sound = check_segment_header(in_use.data()); !sound)
        return sound.code() == Code::kUnsupported ? sound : Status(Code::kNotFound, "no segment header");
    return load_le<std::uint64_t>(in_use.data() + 16);
}

std::uint64_t segment_bytes_being_begun(std::span<const std::byte> header) noexcept {
    const std::byte* const p = header.data();
    return load_le<std::uint64_t>(p) == 0 && load_le<std::uint32_t>(p + 8) == kVersion ? load_le<std::uint64_t>(p + 16)
                                                                                       : 0;
}

void encode(const RecordHeader& header, std::span<const ByteRange> extents, std::uint64_t use,
            std::span<std::byte> at) noexcept {
    std::byte* const p = at.data();
    store_le(p, kRecordMagic);
    p[4] = static_cast<std::byte>(header.kind);
    p[5] = static_cast<std::byte>(header.data_class);
    const auto flags = (header.payload_checked ? kFlagPayloadChecked : 0) | (header.durable ? kFlagDurable : 0);
    store_le(p + 6, static_cast<std::uint16_t>(flags));
    store_le(p + 8, static_cast<std::uint32_t>(extents.size()));
    store_le(p + 12, std::uint32_t{0});
    store_le(p + 16, header.sequence);
    store_le(p + 24, header.payload_bytes);
    store_le(p + 32, header.argument);
    store_le(p + 40, header.time_ns);
    store_le(p + 48, header.payload_checksum);
    std::byte* entry = p + kRecordHeaderBytes;
    for (const ByteRange& extent : extents) {
        store_le(entry, extent.begin);
        store_le(entry + 8, extent.size());
        entry += kExtentBytes;
    }
    store_le(p + kRecordChecksumOffset, header_checksum(p, extents.size(), use));
}

std::uint64_t bytes_looked_at(std::span<const std::byte> header, std::uint64_t limit) noexcept {
    const std::byte* const p = header.data();
    if (load_le<std::uint32_t>(p) != kRecordMagic) return kRecordHeaderBytes;
    const std::uint64_t front = payload_offset(load_le<std::uint32_t>(p + 8)),
                        payload_bytes = load_le<std::uint64_t>(p + 24);
    const bool payload = (load_le<std::uint16_t>(p + 6) & kFlagPayloadChecked) != 0 ||
                         static_cast<std::uint8_t>(p[4]) == static_cast<std::uint8_t>(RecordKind::kOpen);
    if (front >= limit || (payload && payload_bytes >= limit - front)) return limit;
    return payload ? front + payload_bytes : front;
}

Result<DecodedRecord> decode_record(std::span<const std::byte> bytes, std::uint64_t use, PayloadCheck check) {
    if (bytes.size() < kRecordHeaderBytes) return corrupt("record header is cut off");
    const std::byte* const p = bytes.data();
    if (load_le<std::uint32_t>(p) != kRecordMagic) return corrupt("record magic is wrong");
    const std::uint64_t extents = load_le<std::uint32_t>(p + 8);
    if (extents > (bytes.size() - kRecordHeaderBytes) / kExtentBytes) return corrupt("extent table is cut off");
    if (load_le<std::uint64_t>(p + kRecordChecksumOffset) != header_checksum(p, extents, use))
        return corrupt("record header checksum is wrong");

    DecodedRecord record;
    const auto kind = static_cast<std::uint8_t>(p[4]);
    const auto data_class = static_cast<std::uint8_t>(p[5]);
    if (kind < 1 || kind > static_cast<std::uint8_t>(RecordKind::kBypass)) return corrupt("record kind is unknown");
    if (data_class > 1) return corrupt("record class is unknown");
    const auto flags = load_le<std::uint16_t>(p + 6);
    if ((flags & ~kFlagsKnown) != 0) return corrupt("record flags are unknown");
    record.header = {
        static_cast<RecordKind>(kind),  static_cast<DataClass>(data_class), (flags & kFlagPayloadChecked) != 0,
        load_le<std::uint64_t>(p + 16), load_le<std::uint64_t>(p + 24),     load_le<std::uint64_t>(p + 32),
        load_le<std::uint64_t>(p + 40), load_le<std::uint64_t>(p + 48),     (flags & kFlagDurable) != 0};
    const std::uint64_t front = payload_offset(extents);
    if (record.header.payload_bytes > bytes.size() - front) return corrupt("payload is cut off");
    record.bytes = record_bytes(extents, record.header.payload_bytes);
    if (record.bytes > bytes.size()) return corrupt("padding is cut off");
    record.payload = bytes.subspan(front, record.header.payload_bytes);

    std::uint64_t covered = 0;
    record.extents.reserve(extents);
    for (std::uint64_t i = 0; i < extents; ++i) {
        const std::byte* const entry = p + kRecordHeaderBytes + i * kExtentBytes;
        const auto begin = load_le<std::uint64_t>(entry), length = load_le<std::uint64_t>(entry + 8);
        if (length > kOffsetMax - begin || length > kOffsetMax - covered) return corrupt("extent overflows");
        covered += length;
        record.extents.push_back({begin, begin + length});
    }
    if (record.header.kind == RecordKind::kData && covered != record.header.payload_bytes)
        return corrupt("extents and payload differ in length");
    if (check == PayloadCheck::kVerify && record.header.payload_checked &&
        checksum(record.payload) != record.header.payload_checksum)
        return corrupt("payload checksum is wrong");
    return record;
}

std::vector<std::byte> encode(const OpenPayload& payload) {
    std::vector<std::byte> bytes(kOpenPayloadBytes + payload.path.size());
    store_le(bytes.data(), payload.device);
    store_le(bytes.data() + 8, payload.inode);
    store_le(bytes.data() + 16, payload.commit_sequence);
    store_le(bytes.data() + 24,
             static_cast<std::uint64_t>(payload.sharing.kind) | std::uint64_t{payload.sharing.member} << 32);
    store_le(bytes.data() + 32, payload.sharing.group);
    store_le(bytes.data() + 40, payload.born.time_ns);
    store_le(bytes.data() + 48, payload.born.generation);
    if (!payload.path.empty()) std::memcpy(bytes.data() + kOpenPayloadBytes, payload.path.data(), payload.path.size());
    return bytes;
}

Result<OpenPayload> decode_open_payload(std::span<const std::byte> payload) {
    if (payload.size() < kOpenPayloadBytes) return corrupt("open record is too short");
    OpenPayload decoded;
    decoded.device = load_le<std::uint64_t>(payload.data());
    decoded.inode = load_le<std::uint64_t>(payload.data() + 8);
    decoded.commit_sequence = load_le<std::uint64_t>(payload.data() + 16);
    const auto kind = load_le<std::uint32_t>(payload.data() + 24);
    if (kind > static_cast<std::uint64_t>(Sharing::Kind::kConsistentNodes))
        return corrupt("open record: kind of sharing is unknown");
    decoded.sharing = {static_cast<Sharing::Kind>(kind), load_le<std::uint64_t>(payload.data() + 32),
                       load_le<std::uint32_t>(payload.data() + 28)};
    decoded.born = {load_le<std::uint64_t>(payload.data() + 40), load_le<std::uint64_t>(payload.data() + 48)};
    const auto path = payload.subspan(kOpenPayloadBytes);
    decoded.path.assign(reinterpret_cast<const char*>(path.data()), path.size());
    return decoded;
}

}   // namespace forebay::log
