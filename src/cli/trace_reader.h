// Reads the trace that processes append (docs/statistics.md, "The trace"). Pure, except for reading a file.
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

// The events that ended after `since_ns`. Ignores torn and unknown lines. A missing file gives none.
[[nodiscard]] Result<std::vector<TraceEvent>> read_trace(const std::string& path, std::uint64_t since_ns);

struct Timeline {
    double interval_s = 0;
    std::vector<double> waiting;         // part of the processes' time spent waiting, 0 to 1
    std::vector<double> written_bytes;   // bytes that reached the files
    std::vector<double> read_bytes;      // bytes read from cached files
};
[[nodiscard]] Timeline timeline_of(const std::vector<TraceEvent>& events, std::uint64_t begin_ns, std::uint64_t end_ns,
                                   std::size_t intervals);

// The bytes of all events of a kind, divided by the time with at least one in progress; 0 if there is no event.
[[nodiscard]] double bytes_per_second(const std::vector<TraceEvent>& events, TraceEvent::Kind kind);

struct Alignment {
    std::uint64_t writes = 0, unaligned = 0;   // writes that begin or end within a stripe
};
// Counts writes to files of at least a quarter of a stripe. Smaller ones share a stripe in any case.
[[nodiscard]] Alignment alignment_of(const std::vector<TraceEvent>& events, std::uint64_t stripe_bytes);

}   // namespace forebay::cli
