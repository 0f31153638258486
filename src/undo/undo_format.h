// The undo journal of one rank: old bytes that a rank overwrote in a file of several nodes.
// docs/log-format.md, "The undo journal", is the specification; this is its only implementation. Encoders and decoders
// are pure. `read_undo` checks everything that it reads: the file bounds all lengths, offsets plus lengths may not
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

// Returns the name of the journal for the file with log number 7, "undo-7", in the rank's process directory.
[[nodiscard]] std::string undo_name(std::uint64_t log);
// Returns 7 for "undo-7", and nullopt for a name that `undo_name` never returns: another program made that file.
[[nodiscard]] std::optional<std::uint64_t> log_of_undo(std::string_view name) noexcept;

inline constexpr std::size_t kUndoFrontBytes = 8192;   // header, states, path; records follow
inline constexpr std::size_t kUndoStateBytes = 128;
inline constexpr std::size_t kUndoRecordBytes = 64;
inline constexpr std::uint64_t kUndoPayloadMax = 4 << 20;   // bytes of one record

struct UndoHeader {
    std::uint64_t team = 0;                  // equal in the journals of all ranks that opened the file together
    std::uint64_t member = 0, members = 0;   // number of this rank, and of all ranks
    area::ProcessIdentity process;
    std::uint64_t device = 0, inode = 0;   // of the target, as this node sees it
    std::string path;                      // of the target, absolute
};

// The progress of commits, as this rank knows it. The newest state counts.
struct UndoState {
    std::uint64_t serial = 0;
    std::uint64_t decided = 0, decided_size = 0;     // the last commit, and the file's size then; 0: as at the open
    std::uint64_t decided_ns = 0;                    // CLOCK_REALTIME at which this rank learned of it
    std::uint64_t prepared = 0, prepared_size = 0;   // the last commit that this rank agreed to; at least `decided`
    std::uint64_t given_up = 0;                      // bytes overwritten since then without a copy
    bool closed = false;     // every rank knows of the last commit, and no rank has written since
    bool told = false;       // recovery has laid a copy of this journal beside the target, possibly incomplete
    bool finished = false;   // recovery has seen that the file needs this journal no more
};

struct UndoRecord {
    std::uint64_t epoch = 0;                  // the commit that makes the overwriting valid
    std::uint64_t phase = 0, phase_end = 0;   // UndoJournal::phase before and after the read
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
// Returns the offset of the state with this serial: two places take turns.
[[nodiscard]] constexpr std::uint64_t undo_state_at(std::uint64_t serial) noexcept {
    return 256 + serial % 2 * kUndoStateBytes;
}
// The longest path that a journal can hold.
inline constexpr std::size_t kUndoPathAt = 576, kUndoPathMax = kUndoFrontBytes - kUndoPathAt;

struct UndoView {
    UndoHeader header;
    UndoState state;
    struct Record {
        UndoRecord record;
        std::uint64_t payload_at = 0;   // offset in the journal
    };
    // In the order of appending; the first record of a write that never happened may be missing.
    std::vector<Record> records;
};
// Returns kCorrupt if it is no journal, or damaged. Leaves out a cut-off last record, which was never used.
[[nodiscard]] Result<UndoView> read_undo(io::File& file);
// Reads only the owner of the journal and the target.
[[nodiscard]] Result<UndoHeader> read_undo_header(io::File& file);

// Writes `state` with the serial after `last_serial`.
[[nodiscard]] Status write_undo_state(io::File& file, std::uint64_t last_serial, UndoState state);

}   // namespace forebay::undo
