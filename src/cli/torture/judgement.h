// Whether a file is what its last commit promised, and the figures of a campaign that follow from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/torture/workload.h"

namespace forebay::cli {

// What became of one point at which processes were killed.
struct Judgement {
    enum class Verdict : std::uint8_t { kRecovered, kLost, kHung };
    Verdict verdict = Verdict::kRecovered;
    std::string what{};                     // was wrong; empty: nothing
    std::uint64_t commit = 0;               // the one that the file is at
};

// The process that followed `oracle`'s seed had told of `reported` commits when it was killed. The file must be as it
// was at the last of them or at the next one, which may have been complete before it could be told of.
[[nodiscard]] Judgement judge(Oracle oracle, std::uint64_t reported, std::span<const std::byte> content);

struct Campaign {
    std::string name;                       // "killed while writing"
    std::string skipped{};                  // why; empty: it was not
    std::uint64_t points = 0, recovered = 0, lost = 0, hung = 0;
    std::uint64_t kills = 0;                // of processes; several at one point in some campaigns
    std::uint64_t commits = 0;              // that had been reported, over all points
    std::uint64_t replayed_bytes = 0;       // that recovery wrote from the logs
    std::uint64_t worst_recovery_ns = 0;    // the command, from its start to its end
    std::vector<std::string> failures{};    // the first few

    void count(const Judgement& judgement);
    // Something was tried, and all of it went well; or it was skipped.
    [[nodiscard]] bool all_well() const noexcept { return !skipped.empty() || (points > 0 && recovered == points); }
};

// All campaigns went well, and not all of them were skipped.
[[nodiscard]] bool all_well(std::span<const Campaign> campaigns) noexcept;

}   // namespace forebay::cli
