// The end of a job: option `deadline`, or SLURM_JOB_END_TIME. Pure, except for the local time zone. Thread-safe.
//   off                          never
//   90s, 110m, 1.5h, 2d          a duration from the program's start; below 10^9 without a unit: seconds
//   1751302800                   seconds since 1970, as in Slurm's variable
//   2025-06-30T17:00[:00][Z]     a time of day: UTC with Z, else local time
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace forebay {

struct JobEnd {
    enum class Kind : std::uint8_t { kNever, kAfter, kAt };
    Kind kind = Kind::kNever;
    std::uint64_t ns = 0;   // kAfter: since the start of the program; kAt: since 1970
};

// Empty text means kNever. The failure describes the error in the text.
[[nodiscard]] Result<JobEnd> parse_job_end(std::string_view text);

// Returns the end of the job as an instant of the monotonic clock, or ~0 for kNever. An end in the past is at least 0.
struct Now {
    std::uint64_t monotonic_ns = 0, realtime_ns = 0;
    std::uint64_t program_age_ns = 0;
};
[[nodiscard]] std::uint64_t monotonic_end_ns(const JobEnd& end, const Now& now) noexcept;

}   // namespace forebay
