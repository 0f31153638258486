// What the logs of one file say together: the newest byte of every place, as of the last commit.
//
// Records count in order of their sequence numbers, up to that of the last commit. A data record makes its bytes the
// newest of their places; a truncation makes zeros of all that lies beyond; a bypass record says that the target has
// the newest bytes. With several logs the frontier (log/frontier.h) leaves records out, or makes bypass records of
// them. With several nodes there are no commits for the logs: all records count, and cuts are in the target already.
// docs/log-format.md is the specification.
// Pure: nothing is read but what the scan has found; payloads stay where they are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "extent/extent_map.h"
#include "log/frontier.h"
#include "log/scan.h"

namespace forebay::recover {

// Where the newest bytes of an extent are.
struct Newest {
    static constexpr std::uint32_t kZeros = UINT32_MAX;
    std::uint32_t log = kZeros;   // index of the log, or kZeros: they were cut off
    bool checked = true;          // the log has a checksum of them, which was right
    std::uint64_t at = 0;         // in that log's file

    [[nodiscard]] Newest advanced(std::uint64_t bytes) const noexcept {
        return {log, checked, log == kZeros ? 0 : at + bytes};
    }
};

struct Picture {
    ExtentMap<Newest> newest;                                // what is not in it is as the target has it
    std::optional<std::uint64_t> size;                       // of the file; none: as the target's
    std::uint64_t commit_sequence = 0, commit_time_ns = 0;   // 0: there was no commit
    std::uint64_t bytes = 0, unchecked_bytes = 0;            // to be written from the logs, below `size`
    std::uint64_t dropped_records = 0, dropped_bytes = 0;    // later than the last commit
};

// `logs` are those of one file and node; the first one is that of the process that makes its commits.
[[nodiscard]] Picture replay(std::span<const log::ScannedLog* const> logs, const log::Frontier& frontier);

}   // namespace forebay::recover
