// The campaigns of `forebay torture`. Each point: a file, a process that writes to it through the staging engine, calls
// of it that fail, its end, recovery by `forebay recover`, and a look at the file.
//
// Nothing waits without a deadline: a process that has not done its part within `hang_ns` is killed, and counts as
// hung. After the first point that goes wrong nothing more is tried: what is left of it is the evidence.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "torture/fault_case.h"
#include "torture/ground.h"
#include "torture/judgement.h"
#include "torture/victim.h"

namespace forebay::torture {

inline constexpr std::uint64_t kHangNs = 60'000'000'000;

struct TortureOrder {
    std::uint64_t seed = 0;
    std::uint64_t duration_ns = 0;
    std::vector<std::string> settings{};   // options of the process that writes (VictimOrder)
    std::uint64_t hang_ns = kHangNs;
    Spoil spoil = Spoil::kNothing;   // in the campaigns with faults, and with servers
    bool server = false;             // other campaigns: a staging server and its clients
    std::string only{};              // the name of one campaign; empty: all
};

class Torture {
  public:
    using Progress = std::function<void(std::span<const Campaign> campaigns, std::size_t at)>;
    // A signal that asks to end ends it between two steps: `interrupted`.
    Torture(Ground& ground, TortureOrder order, Progress progress);

    // All campaigns, each for its share of the time and one point at least. The error: they cannot be carried out here.
    [[nodiscard]] Result<std::vector<Campaign>> run();
    [[nodiscard]] bool interrupted() const noexcept { return ground_.signals.asked() != 0; }

  private:
    enum class How : std::uint8_t {
        kAtAnInstant,
        kAtACall,
        kRecovering,
        kRecoveringAgain,
        kTargetFails,
        kTargetFailsThenKilled,
        kStagingFails,
        kStagingFailsThenKilled
    };
    [[nodiscard]] static std::vector<std::string> names(bool server);
    struct Point {
        std::uint64_t reported = 0;   // commits
        std::uint64_t told = 0;       // failures
        bool uncommitted = false;
        std::uint64_t kills = 0;   // of recoveries
        Judgement judgement;
        bool counts = true;   // false: nothing was killed that was to be
    };
    using NextPoint = std::function<Result<Point>(Campaign& campaign)>;
    // The points of one campaign. A setting that leaves nothing to try is the reason why it is skipped.
    [[nodiscard]] NextPoint points_of(How how, Campaign& campaign);
    [[nodiscard]] Status fight(const NextPoint& next, Campaign& campaign, std::uint64_t until_ns);
    [[nodiscard]] Result<Point> kill_point(How how, std::uint64_t nth, Campaign& campaign);
    // The number of commits that it told of; none: it hung.
    [[nodiscard]] Result<std::optional<std::uint64_t>> kill_at_an_instant(std::uint64_t seed);
    [[nodiscard]] Result<std::optional<std::uint64_t>> kill_at_a_call(std::uint64_t seed, std::uint64_t nth);
    [[nodiscard]] Result<bool> kill_recovery();   // false: it had ended
    // server_campaign.cc
    [[nodiscard]] NextPoint server_points(std::size_t number);
    // fault_campaign.cc
    class FaultPoint;
    [[nodiscard]] NextPoint fault_points(bool of_target, bool killed, Campaign& campaign);
    [[nodiscard]] Result<Killable> start_victim(const VictimOrder& order);
    // What recovery tells of the file.
    struct Recovery {
        bool any_log = false;
        bool uncommitted = false;   // bytes had reached it before their commit
    };
    using Judge = std::function<Judgement(const Recovery& recovery, std::span<const std::byte> content)>;
    [[nodiscard]] Result<Judgement> recover_and_judge(const std::string& where, const Judge& judge, Campaign& campaign);
    [[nodiscard]] Result<Killable> start_recovery();
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept { return dice_.below(bound); }

    Ground& ground_;
    const TortureOrder order_;
    std::uint64_t seed_;
    Dice dice_;
    Progress progress_;
    std::vector<Campaign> campaigns_;
    std::vector<std::string> strace_;          // the command's beginning
    std::uint64_t recovery_ns_ = 20'000'000;   // the last one's, to kill the next one in its midst
};

// How long recovery takes for a log of some size, and the file system for the same bytes written in order and synced:
// medians of five, taken by turns.
struct Speed {
    std::uint64_t bytes = 0;   // that recovery wrote
    std::uint64_t recovery_ns = 0, sequential_ns = 0;
    bool right = false;   // every byte is what was written
};
[[nodiscard]] Result<Speed> measure_recovery(Ground& ground, std::uint64_t bytes,
                                             const std::vector<std::string>& settings);

}   // namespace forebay::torture
