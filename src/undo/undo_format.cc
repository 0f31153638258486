#include "undo/undo_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/numbered_name.h"

namespace forebay::undo {

namespace {

constexpr std::string_view kUndoPrefix = "undo-";
constexpr std::uint64_t kMagic = 0x31304f444e554246;   // "FBUNDO01" in memory
constexpr std::uint32_t kRecordMagic = 0x444e5546;     // "FUND" in memory
constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kHeaderChecksumAt = 104, kStateChecksumAt = kUndoStateBytes - 8, kRecordChecksumAt = 56;
constexpr std::uint64_t kMembersMax = std::uint64_t{1} << 24;
constexpr std::uint64_t kClosed = 1, kTold = 2, kFinished = 4;

std::uint64_t header_checksum(std::span<const std::byte> front, std::size_t path_bytes) noexcept {
    return XXH3_64bits_withSeed(front.data() + kUndoPathAt, path_bytes, XXH3_64bits(front.data(), kHeaderChecksumAt));
}

Status corrupt(const io::File& file, std::string_view what) {
    return {Code::kCorrupt, fmt::format("{}: {}", file.name(), what)};
}

std::optional<UndoState> decode_state(const std::byte* p) noexcept {
    if (load_le<std::uint64_t>(p + kStateChecksumAt) != XXH3_64bits(p, kStateChecksumAt)) return std::nullopt;
    UndoState state;
    state.serial = load_le<std::uint64_t>(p);
    state.decided = load_le<std::uint64_t>(p + 8);
    state.decided_size = load_le<std::uint64_t>(p + 16);
    state.decided_ns = load_le<std::uint64_t>(p + 24);
    state.prepared = load_le<std::uint64_t>(p + 32);
    state.prepared_size = load_le<std::uint64_t>(p + 40);
    state.given_up = load_le<std::uint64_t>(p + 48);
    const auto flags = load_le<std::uint64_t>(p + 56);
    state.closed = (flags & kClosed) != 0;
    state.told = (flags & kTold) != 0;
    state.finished = (flags & kFinished) != 0;
    if (state.serial == 0 || state.prepared < state.decided || (flags & ~(kClosed | kTold | kFinished)) != 0)
        return std::nullopt;
    return state;
}

Result<UndoHeader> decode_header(const io::File& file, std::span<const std::byte> front) {
    const std::byte* const p = front.data();
    if (load_le<std::uint64_t>(p) != kMagic) return corrupt(file, "no undo journal");
    if (const auto version = load_le<std::uint32_t>(p + 8); version != kVersion)
        return Status(Code::kUnsupported,
                      fmt::format("{}: undo journal of version {}, not {}", file.name(), version, kVersion));
    const auto path_bytes = load_le<std::uint64_t>(p + 96);
    if (path_bytes > kUndoPathMax ||
        load_le<std::uint64_t>(p + kHeaderChecksumAt) != header_checksum(front, path_bytes))
        return corrupt(file, "the checksum of the undo journal's header is wrong");
    UndoHeader header;
    header.team = load_le<std::uint64_t>(p + 16);
    header.member = load_le<std::uint64_t>(p + 24);
    header.members = load_le<std::uint64_t>(p + 32);
    header.process.pid = load_le<std::uint64_t>(p + 40);
    header.process.start_ticks = load_le<std::uint64_t>(p + 48);
    std::memcpy(header.process.boot_id.data(), p + 56, header.process.boot_id.size());
    header.device = load_le<std::uint64_t>(p + 72);
    header.inode = load_le<std::uint64_t>(p + 80);
    header.path.assign(reinterpret_cast<const char*>(p + kUndoPathAt), path_bytes);
    if (header.member >= header.members || header.members > kMembersMax)
        return corrupt(file, "the undo journal's rank is impossible");
    return header;
}

// A payload is small enough to be read as a whole.
Result<bool> payload_is_right(io::File& file, std::uint64_t at, const UndoRecord& record,
                              std::vector<std::byte>& buffer) {
    buffer.resize(record.range.size());
    const auto got = file.read_at(at, buffer);
    if (!got) return got.status();
    return got.value() == buffer.size() && checksum(buffer) == record.payload_checksum;
}

}   // namespace

std::string undo_name(std::uint64_t log) { return fmt::format("{}{}", kUndoPrefix, log); }

std::optional<std::uint64_t> log_of_undo(std::string_view name) noexcept { return number_in_name(name, kUndoPrefix); }

void encode(const UndoHeader& header, std::span<std::byte> front) noexcept {
    std::byte* const p = front.data();
    store_le(p, kMagic);
    store_le(p + 8, kVersion);
    store_le(p + 16, header.team);
    store_le(p + 24, header.member);
    store_le(p + 32, header.members);
    store_le(p + 40, header.process.pid);
    store_le(p + 48, header.process.start_ticks);
    std::memcpy(p + 56, header.process.boot_id.data(), header.process.boot_id.size());
    store_le(p + 72, header.device);
    store_le(p + 80, header.inode);
    store_le(p + 96, static_cast<std::uint64_t>(header.path.size()));
    std::memcpy(p + kUndoPathAt, header.path.data(), header.path.size());
    store_le(p + kHeaderChecksumAt, header_checksum(front, header.path.size()));
}

void encode(const UndoState& state, std::span<std::byte> at) noexcept {
    std::byte* const p = at.data();
    std::fill_n(p, kUndoStateBytes, std::byte{0});
    store_le(p, state.serial);
    store_le(p + 8, state.decided);
    store_le(p + 16, state.decided_size);
    store_le(p + 24, state.decided_ns);
    store_le(p + 32, state.prepared);
    store_le(p + 40, state.prepared_size);
    store_le(p + 48, state.given_up);
    store_le(p + 56, (state.closed ? kClosed : 0) | (state.told ? kTold : 0) | (state.finished ? kFinished : 0));
    store_le(p + kStateChecksumAt, XXH3_64bits(p, kStateChecksumAt));
}

void encode(const UndoRecord& record, std::span<std::byte> at) noexcept {
    std::byte* const p = at.data();
    store_le(p, kRecordMagic);
    store_le(p + 4, static_cast<std::uint32_t>(std::min<std::uint64_t>(record.phase_end - record.phase, UINT32_MAX)));
    store_le(p + 8, record.epoch);
    store_le(p + 16, record.phase);
    store_le(p + 24, record.range.begin);
    store_le(p + 32, record.range.size());
    store_le(p + 40, record.time_ns);
    store_le(p + 48, record.payload_checksum);
    store_le(p + kRecordChecksumAt, XXH3_64bits(p, kRecordChecksumAt));
}

namespace {

Result<std::vector<std::byte>> read_front(io::File& file) {
    std::vector<std::byte> front(kUndoFrontBytes);
    const auto got = file.read_at(0, front);
    if (!got) return got.status();
    if (got.value() != front.size()) return corrupt(file, "too short for an undo journal");
    return front;
}

}   // namespace

Result<UndoHeader> read_undo_header(io::File& file) {
    const auto front = read_front(file);
    if (!front) return front.status();
    return decode_header(file, front.value());
}

Result<UndoView> read_undo(io::File& file) {
    const auto bytes = file.size();
    if (!bytes) return bytes.status();
    const auto read_first = read_front(file);
    if (!read_first) return read_first.status();
    const std::vector<std::byte>& front = read_first.value();
    UndoView view;
    auto header = decode_header(file, front);
    if (!header) return header.status();
    view.header = std::move(header).value();
    for (const std::uint64_t serial : {std::uint64_t{0}, std::uint64_t{1}})
        if (const auto state = decode_state(front.data() + undo_state_at(serial));
            state && state->serial > view.state.serial)
            view.state = *state;
    if (view.state.serial == 0) return corrupt(file, "the undo journal has no state");

    std::array<std::byte, kUndoRecordBytes> head{};
    std::vector<std::byte> payload;
    for (std::uint64_t at = kUndoFrontBytes; bytes.value() - at >= kUndoRecordBytes;) {
        const auto read = file.read_at(at, head);
        if (!read) return read.status();
        const std::byte* const p = head.data();
        // The front of a record is written before the rest, so only a complete front can be wrong.
        if (read.value() != head.size() || load_le<std::uint32_t>(p) != kRecordMagic ||
            load_le<std::uint64_t>(p + kRecordChecksumAt) != XXH3_64bits(p, kRecordChecksumAt))
            return corrupt(file, fmt::format("the record at offset {} is damaged", at));
        const auto begin = load_le<std::uint64_t>(p + 24), length = load_le<std::uint64_t>(p + 32);
        if (length == 0 || length > kUndoPayloadMax || length > kOffsetMax - begin)
            return corrupt(file, fmt::format("the record at offset {} is impossible", at));
        if (undo_record_bytes(length) > bytes.value() - at) break;
        const auto phase = load_le<std::uint64_t>(p + 16), lasted = std::uint64_t{load_le<std::uint32_t>(p + 4)};
        if (phase > UINT64_MAX / 2) return corrupt(file, fmt::format("the record at offset {} is impossible", at));
        const UndoRecord record{load_le<std::uint64_t>(p + 8),
                                phase,
                                phase + lasted,
                                {begin, begin + length},
                                load_le<std::uint64_t>(p + 40),
                                load_le<std::uint64_t>(p + 48)};
        const auto right = payload_is_right(file, at + kUndoRecordBytes, record, payload);
        if (!right) return right.status();
        if (!right.value()) return corrupt(file, fmt::format("the bytes of the record at offset {} are damaged", at));
        view.records.push_back({record, at + kUndoRecordBytes});
        at += undo_record_bytes(length);
    }
    return view;
}

Status write_undo_state(io::File& file, std::uint64_t last_serial, UndoState state) {
    state.serial = last_serial + 1;
    std::array<std::byte, kUndoStateBytes> bytes{};
    encode(state, bytes);
    return file.write_at(undo_state_at(state.serial), bytes);
}

}   // namespace forebay::undo
