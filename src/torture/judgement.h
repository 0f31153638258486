// Whether a file is what its last commit promised, and the figures of a campaign that follow from it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "torture/told.h"
#include "torture/workload.h"

namespace forebay::torture {

// What became of one point at which processes were killed, or calls failed.
struct Judgement {
    enum class Verdict : std::uint8_t {
        kRecovered,
        kLost,    // bytes that were promised are not there: what was there before them is, or nothing
        kWrong,   // there are bytes that were never written to that place; or the process was ended by a signal of its
                  // own
        kHung,
        kUnreported,   // something failed, and no call said so
    };
    Verdict verdict = Verdict::kRecovered;
    std::string what{};         // was wrong; empty: nothing
    std::uint64_t commit = 0;   // the one that the file is at, if it is at one
};

// The process that followed the workload of `seed` had told of `reported` commits when it was killed. The file must be
// as it was at the last of them or at the next one, which may have been complete before it could be told of.
[[nodiscard]] Judgement judge(std::uint64_t seed, std::uint64_t reported, std::span<const std::byte> content);

// The same after a fault. Commits that failed promise nothing, and may have been complete all the same: the file must
// be at the last that returned well, or at any later one. If bytes reached the file before their commit
// (`uncommitted`), which the statistics tell, or there was no log that could be recovered from, everything that was not
// written to since the last good one must be as it was then.
[[nodiscard]] Judgement judge_killed(std::uint64_t seed, const Told& told, bool uncommitted,
                                     std::span<const std::byte> content);

// The same of a file that was `base` when the process opened it, and for which bytes reached it before their commit.
[[nodiscard]] Judgement judge_session(const std::vector<std::byte>& base, std::uint64_t seed, const Told& told,
                                      std::span<const std::byte> content);

// The process closed the file after that many operations, or fewer if one failed, which may have been made in part.
[[nodiscard]] Judgement judge_closed(std::uint64_t seed, std::uint64_t operations, const Told& told,
                                     std::span<const std::byte> content);

// What was done to servers and their clients (server_round.h), and what these did.
struct ServerFigures {
    std::uint64_t sessions = 0;   // of clients that write; of them:
    std::uint64_t closed = 0;     // with success
    std::uint64_t refused = 0;    // could not open the file
    std::uint64_t failed = 0;     // told of a failure, and were not killed
    std::uint64_t direct = 0;     // went on without their server
    std::uint64_t clients_killed = 0, servers_killed = 0, cuts = 0, stops = 0;
    std::uint64_t readers = 0, readers_refused = 0;
    std::uint64_t committed_bytes = 0;   // that clients had written through servers before a commit that succeeded
    ServerFigures& operator+=(const ServerFigures& more) noexcept;
};

struct Campaign {
    std::string name;         // "killed while writing"
    std::string skipped{};    // why; empty: it was not
    std::string left_out{};   // of what it would try elsewhere; empty: nothing
    std::uint64_t points = 0, recovered = 0, lost = 0, hung = 0, wrong = 0, unreported = 0;
    std::uint64_t kills = 0;               // of processes; several at one point in some campaigns
    std::uint64_t commits = 0;             // that had been reported, over all points
    std::uint64_t told = 0;                // failures that a call reported, over all points
    std::uint64_t uncommitted = 0;         // points that were judged so (judge_killed)
    std::uint64_t replayed_bytes = 0;      // that recovery wrote from the logs
    std::uint64_t worst_recovery_ns = 0;   // the command, from its start to its end
    ServerFigures servers{};
    std::vector<std::string> failures{};   // the first few

    void count(const Judgement& judgement);
    // So many points went wrong.
    [[nodiscard]] std::uint64_t bad() const noexcept { return lost + wrong + hung + unreported; }
    // Something was tried, and all of it went well; or it was skipped.
    [[nodiscard]] bool all_well() const noexcept { return !skipped.empty() || (points > 0 && recovered == points); }
};

// All campaigns went well, and not all of them were skipped.
[[nodiscard]] bool all_well(std::span<const Campaign> campaigns) noexcept;

}   // namespace forebay::torture
