// The undo journal of one rank: what a file that several nodes write together held before it was overwritten.
//
// docs/log-format.md, "The undo journal", is the specification; this is its only implementation. Encoders and decoders
// are pure. `read_undo` believes nothing that it reads: lengths are bounded by the file, offsets plus lengths may not
// overflow, and every header and payload has a checksum. It blocks on reads, and holds no payloads in memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "extent/range.h"
#include "io/file.h"
#include "log/format.h"

namespace forebay::undo {

inline constexpr std::string_view kUndoPrefix = "undo-";
// "undo-7": of the file with log number 7, in the rank's process directory.
[[nodiscard]] std::string undo_name(std::uint64_t log);

inline constexpr std::size_t kUndoFrontBytes = 8192;   // header, states, path; records follow
inline constexpr std::size_t kUndoStateBytes = 128;
inline constexpr std::size_t kUndoRecordBytes = 64;
inline constexpr std::uint64_t kUndoPayloadMax = 4 << 20;   // of one record

// Who keeps it, and of which file.
struct UndoHeader {
    std::uint64_t team = 0;                  // the same in the journals of all ranks that opened the file together
    std::uint64_t member = 0, members = 0;   // this rank, of so many
    area::ProcessIdentity process;
    std::uint64_t device = 0, inode = 0;   // of the target, as this node sees it
    std::string path;                      // of the target, absolute
};

// How far commits have come, as far as this rank knows. The newest state counts.
struct UndoState {
    std::uint64_t serial = 0;
    std::uint64_t decided = 0, decided_size = 0;     // the last commit, and the file's size then; 0: as it was opened
    std::uint64_t decided_ns = 0;                    // CLOCK_REALTIME when this rank heard of it
    std::uint64_t prepared = 0, prepared_size = 0;   // the last one that this rank has agreed to; not below `decided`
    std::uint64_t given_up = 0;                      // bytes overwritten since, of which nobody knows what they were
    bool closed = false;   // every rank knows of the last commit, and nobody has written since
    bool told = false;     // recovery has laid a copy of this journal beside the target, which may not be whole yet
};

struct UndoRecord {
    std::uint64_t epoch = 0;                  // the commit that would make the overwriting good
    std::uint64_t phase = 0, phase_end = 0;   // when it was read: see UndoJournal::phase
    ByteRange range;
    std::uint64_t time_ns = 0;
    std::uint64_t payload_checksum = 0;
};

void encode(const UndoHeader& header,
            std::span<std::byte> front) noexcept;                          // kUndoFrontBytes, zeros before; path fits
void encode(const UndoState& state, std::span<std::byte> at) noexcept;     // kUndoStateBytes
void encode(const UndoRecord& record, std::span<std::byte> at) noexcept;   // kUndoRecordBytes
[[nodiscard]] constexpr std::uint64_t undo_record_bytes(std::uint64_t payload) noexcept {
    return kUndoRecordBytes + (payload + 63) / 64 * 64;
}
// Where the state with this serial goes: two places, in turns.
[[nodiscard]] constexpr std::uint64_t undo_state_at(std::uint64_t serial) noexcept {
    return 256 + serial % 2 * kUndoStateBytes;
}
// The longest path that a journal can name.
inline constexpr std::size_t kUndoPathAt = 576, kUndoPathMax = kUndoFrontBytes - kUndoPathAt;

struct UndoView {
    UndoHeader header;
    UndoState state;
    struct Record {
        UndoRecord record;
        std::uint64_t payload_at = 0;   // in the file
    };
    std::vector<Record> records;   // as they were appended: one that begins a write that never came may be missing
};
// kCorrupt: no journal, or damaged. A record that is cut off at the end of the file was never acted upon, and is left
// out.
[[nodiscard]] Result<UndoView> read_undo(io::File& file);
// Only whose journal it is, and of which file.
[[nodiscard]] Result<UndoHeader> read_undo_header(io::File& file);

// Writes `state` with the next serial after `last_serial`.
[[nodiscard]] Status write_undo_state(io::File& file, std::uint64_t last_serial, UndoState state);

}   // namespace forebay::undo
