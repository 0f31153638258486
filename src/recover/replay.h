// Replays the logs of one file in memory: the newest byte of every offset, as of the last commit (docs/log-format.md).
// Records count by ascending sequence number up to the last commit's. A data record's bytes replace older ones. A
// truncation makes zeros of all bytes beyond. After a bypass record the target has the newest bytes. With several logs
// the frontier (log/frontier.h) drops records, or makes them bypass records. With several nodes logs have no commits:
// all records count, and the target already has all cuts. Pure: works on scanned records; payloads stay in the log.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "extent/extent_map.h"
#include "log/frontier.h"
#include "log/scan.h"

namespace forebay::recover {

struct Newest {
    static constexpr std::uint32_t kZeros = UINT32_MAX;
    std::uint32_t log = kZeros;   // index of the log; kZeros: cut off
    bool checked = true;          // they have a valid checksum in the log
    std::uint64_t at = 0;         // in that log's file

    [[nodiscard]] Newest advanced(std::uint64_t bytes) const noexcept {
        return {log, checked, log == kZeros ? 0 : at + bytes};
    }
};

struct Picture {
    ExtentMap<Newest> newest;                                // all other bytes are in the target
    std::optional<std::uint64_t> size;                       // of the file; none: keep the target's
    std::uint64_t commit_sequence = 0, commit_time_ns = 0;   // 0: no commit
    std::uint64_t bytes = 0, unchecked_bytes = 0;            // to write from the logs, below `size`
    std::uint64_t dropped_records = 0, dropped_bytes = 0;    // after the last commit
};

// `logs` are those of one file and node; the first is that of the committing process.
[[nodiscard]] Picture replay(std::span<const log::ScannedLog* const> logs, const log::Frontier& frontier);

}   // namespace forebay::recover
