// Reading the trace that processes append (option trace): docs/statistics.md, "The trace". Pure but for reading a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::cli {

struct TraceEvent {
    enum class Kind { kWrite, kRead, kWait };
    Kind kind = Kind::kWrite;
    std::uint64_t pid = 0, begin_ns = 0, end_ns = 0, bytes = 0;   // CLOCK_MONOTONIC
    std::uint64_t offset = 0;                                     // in the file
};

// The lines of `path` of what ended after `since_ns`. Torn and unknown lines are passed over. No file: no lines.
[[nodiscard]] Result<std::vector<TraceEvent>> read_trace(const std::string& path, std::uint64_t since_ns);

// What happened when, in intervals of the same length.
struct Timeline {
    double interval_s = 0;
    std::vector<double> waiting;         // part of the time that the processes spent waiting, 0 to 1
    std::vector<double> written_bytes;   // that reached the files
    std::vector<double> read_bytes;      // that came from files that are cached
};
// `intervals` of them from `begin_ns` to `end_ns`.
[[nodiscard]] Timeline timeline_of(const std::vector<TraceEvent>& events, std::uint64_t begin_ns, std::uint64_t end_ns,
                                   std::size_t intervals);

// Bytes of all events of a kind, over the time in which at least one of them was under way; 0: there is none.
[[nodiscard]] double bytes_per_second(const std::vector<TraceEvent>& events, TraceEvent::Kind kind);

struct Alignment {
    std::uint64_t writes = 0, unaligned = 0;   // those that begin or end within a stripe
};
// Of the writes to files that are at least a quarter of a stripe long: smaller ones share a stripe in any case.
[[nodiscard]] Alignment alignment_of(const std::vector<TraceEvent>& events, std::uint64_t stripe_bytes);

}   // namespace forebay::cli
