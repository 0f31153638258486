// Judges if a file is in the state that its last commit promises, and counts results of a campaign. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "torture/told.h"
#include "torture/workload.h"

namespace forebay::torture {

// The result of one point, at which processes were killed or calls failed.
struct Judgement {
    enum class Verdict : std::uint8_t {
        kRecovered,
        kLost,    // promised bytes are missing: their place has older bytes or none
        kWrong,   // a place has bytes that were never written there, or a signal of its own ended the process
        kHung,
        kUnreported,   // a call failed, and no call reported it
    };
    Verdict verdict = Verdict::kRecovered;
    std::string what{};         // the error; empty if there is none
    std::uint64_t commit = 0;   // the commit of the file's state, if it has one
};

// After a kill, when the workload of `seed` had reported `reported` commits. The state must be that of the last one, or
// of the next, which may have been complete before the report.
[[nodiscard]] Judgement judge(std::uint64_t seed, std::uint64_t reported, std::span<const std::byte> content);

// After a fault and a kill. Failed commits promise no bytes, but may be complete: the state must be the last good
// commit's, or a later one's. `uncommitted`: bytes reached the file before their commit (from the statistics), or no
// log was readable. Then all bytes not written since the last good commit must be unchanged.
[[nodiscard]] Judgement judge_killed(std::uint64_t seed, const Told& told, bool uncommitted,
                                     std::span<const std::byte> content);

// Judges a file that was `base` when the process opened it, with uncommitted bytes as above.
[[nodiscard]] Judgement judge_session(const std::vector<std::byte>& base, std::uint64_t seed, const Told& told,
                                      std::span<const std::byte> content);

// After a close and `operations` operations, the last of which may have failed and been made in part.
[[nodiscard]] Judgement judge_closed(std::uint64_t seed, std::uint64_t operations, const Told& told,
                                     std::span<const std::byte> content);

// Counts of harm to servers and their clients (server_round.h), and of the clients' results.
struct ServerFigures {
    std::uint64_t sessions = 0;   // sessions of writing clients; the next four are parts
    std::uint64_t closed = 0;     // with success
    std::uint64_t refused = 0;    // the open failed
    std::uint64_t failed = 0;     // reported a failure, and were not killed
    std::uint64_t direct = 0;     // continued without their server
    std::uint64_t clients_killed = 0, servers_killed = 0, cuts = 0, stops = 0;
    std::uint64_t readers = 0, readers_refused = 0;
    std::uint64_t committed_bytes = 0;   // bytes that clients wrote through servers before a good commit
    ServerFigures& operator+=(const ServerFigures& more) noexcept;
};

struct Campaign {
    std::string name;         // "killed while writing"
    std::string skipped{};    // the reason; empty if it ran
    std::string left_out{};   // the parts that cannot run here; empty: none
    std::uint64_t points = 0, recovered = 0, lost = 0, hung = 0, wrong = 0, unreported = 0;
    std::uint64_t kills = 0;               // killed processes; some campaigns kill several at one point
    std::uint64_t commits = 0;             // reported commits, over all points
    std::uint64_t told = 0;                // reported failures, over all points
    std::uint64_t uncommitted = 0;         // points judged with `uncommitted` (judge_killed)
    std::uint64_t replayed_bytes = 0;      // bytes that recovery wrote from the logs
    std::uint64_t worst_recovery_ns = 0;   // of the command, from its start to its end
    ServerFigures servers{};
    std::vector<std::string> failures{};   // the first few

    void count(const Judgement& judgement);
    [[nodiscard]] std::uint64_t bad() const noexcept { return lost + wrong + hung + unreported; }
    // Returns true if the campaign was skipped, or tried points and all recovered.
    [[nodiscard]] bool all_well() const noexcept { return !skipped.empty() || (points > 0 && recovered == points); }
};

// Returns true if all campaigns went well, and at least one ran.
[[nodiscard]] bool all_well(std::span<const Campaign> campaigns) noexcept;

}   // namespace forebay::torture
