// The campaigns of `forebay torture`. At each point (trial) a process writes to a file through the staging engine, some
// of its calls fail, and it ends. Then `forebay recover` runs, and the campaign checks the file. Every wait has a
// deadline: a process that does not finish within `hang_ns` is killed, and counts as hung. A campaign stops after its
// first bad point, and keeps the evidence.
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
    Spoil spoil = Spoil::kNothing;   // for the campaigns with faults or servers
    bool server = false;             // runs the campaigns of a staging server and its clients instead
    std::string only{};              // the name of the only campaign; empty: all
};

class Torture {
  public:
    using Progress = std::function<void(std::span<const Campaign> campaigns, std::size_t at)>;
    // A signal that asks this process to end stops the run between two steps, with the error `interrupted`.
    Torture(Ground& ground, TortureOrder order, Progress progress);

    // Runs all campaigns, each for its share of the time and at least one point. Fails if they cannot run here.
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
        std::uint64_t told = 0;       // reported failures
        bool uncommitted = false;
        std::uint64_t kills = 0;   // killed recoveries
        Judgement judgement;
        bool counts = true;   // false: the kill did not happen
    };
    using NextPoint = std::function<Result<Point>(Campaign& campaign)>;
    // Returns the points of one campaign. If the settings leave no point, the campaign is skipped for that reason.
    [[nodiscard]] NextPoint points_of(How how, Campaign& campaign);
    [[nodiscard]] Status fight(const NextPoint& next, Campaign& campaign, std::uint64_t until_ns);
    [[nodiscard]] Result<Point> kill_point(How how, std::uint64_t nth, Campaign& campaign);
    // Returns the number of reported commits, or nullopt if the process hung.
    [[nodiscard]] Result<std::optional<std::uint64_t>> kill_at_an_instant(std::uint64_t seed);
    [[nodiscard]] Result<std::optional<std::uint64_t>> kill_at_a_call(std::uint64_t seed, std::uint64_t nth);
    [[nodiscard]] Result<bool> kill_recovery();   // false: the recovery had ended
    // server_campaign.cc
    [[nodiscard]] NextPoint server_points(std::size_t number);
    // fault_campaign.cc
    class FaultPoint;
    [[nodiscard]] NextPoint fault_points(bool of_target, bool killed, Campaign& campaign);
    [[nodiscard]] Result<Killable> start_victim(const VictimOrder& order);
    struct Recovery {
        bool any_log = false;
        bool uncommitted = false;   // bytes reached the file before their commit
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
    std::vector<std::string> strace_;          // the beginning of the command
    std::uint64_t recovery_ns_ = 20'000'000;   // of the last recovery, to kill the next one halfway
};

// Recovery of a log of some size, compared with writing its bytes in order and syncing. Medians of five runs in turns.
struct Speed {
    std::uint64_t bytes = 0;   // bytes that recovery wrote
    std::uint64_t recovery_ns = 0, sequential_ns = 0;
    bool right = false;   // every byte is correct
};
[[nodiscard]] Result<Speed> measure_recovery(Ground& ground, std::uint64_t bytes,
                                             const std::vector<std::string>& settings);

}   // namespace forebay::torture
