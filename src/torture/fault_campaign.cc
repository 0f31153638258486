#include <fmt/format.h>
#include <sys/wait.h>

#include <memory>

#include "base/clock.h"
#include "torture/campaign.h"

namespace forebay::torture {

namespace {

constexpr std::uint64_t kFaultOperationsMin = 10, kFaultOperationsMore = 120;
constexpr std::uint64_t kFaultLaterNs = 6'000'000;   // after the fault, at most, and then the kill

// The next case, and the call in it. A case begins anew after a run that had too few calls.
struct Tour {
    std::vector<FaultCase> cases;
    std::vector<std::uint64_t> nth = std::vector<std::uint64_t>(cases.size(), 1);
    std::size_t at = 0;
};

}   // namespace

// One point: the process that writes meets one fault, and then ends by itself or is killed.
class Torture::FaultPoint {
  public:
    FaultPoint(Torture& torture, const FaultCase& fault, std::uint64_t nth, bool killed)
        : torture_(torture),
          fault_(fault),
          killed_(killed),
          seed_(torture.seed_++),
          operations_(kFaultOperationsMin + torture.below(kFaultOperationsMore)),
          nth_(nth),
          where_(fmt::format("seed {}, {} at call {}: ", seed_, fault.text(), nth)) {}

    Result<Point> run(Campaign& campaign) {
        FOREBAY_TRY(torture_.ground_.prepare(Workload::initial(seed_)));
        auto victim = torture_.start_victim(order());
        if (!victim) return victim.status();
        FOREBAY_TRY(await_end(victim.value()));
        if (is_bad()) return point_;
        FOREBAY_TRY(look_at_end(victim.value().wait_status()));
        if (is_bad()) return point_;
        told_ = understand(victim.value().output());
        point_.reported = told_.good_commits;
        point_.told = told_.failures;
        point_.counts = told_.fault_met;
        // Else it was to be killed, and ended: nothing to judge.
        if (told_.fault_met || told_.closed) FOREBAY_TRY(judge(campaign));
        return point_;
    }

  private:
    [[nodiscard]] VictimOrder order() const {
        VictimOrder order{.seed = seed_,
                          .nls = torture_.ground_.nls(),
                          .file = torture_.ground_.file(),
                          .settings = torture_.order_.settings,
                          .fault = std::string(fault_.kind->name),
                          .nth = nth_,
                          .for_ever = fault_.for_ever,
                          .operations = operations_,
                          .close = !killed_,
                          .spoil = torture_.order_.spoil};
        for (std::string& setting : fault_.settings()) order.settings.push_back(std::move(setting));
        return order;
    }
    void call_bad(Judgement::Verdict verdict, const std::string& what) {
        point_.judgement = {.verdict = verdict, .what = where_ + what};
    }
    [[nodiscard]] bool is_bad() const noexcept { return point_.judgement.verdict != Judgement::Verdict::kRecovered; }

    // The process ends by itself, or a moment after it has met the fault.
    Status await_end(Killable& process) {
        const std::uint64_t hang_ns = torture_.order_.hang_ns, deadline_ns = monotonic_ns() + hang_ns;
        auto event = process.wait(deadline_ns, killed_ ? 1 : SIZE_MAX);
        while (event && event.value() == Killable::Event::kOutput && !understand(process.output()).fault_met)
            event = process.wait(deadline_ns, process.output().size() + 1);
        if (!event) return event.status();
        if (event.value() == Killable::Event::kTime) {
            call_bad(Judgement::Verdict::kHung,
                     fmt::format("the writing process did not do its part within {} s", hang_ns / 1'000'000'000));
            return Status::ok();
        }
        if (killed_ && event.value() == Killable::Event::kOutput) {
            event = process.wait(monotonic_ns() + torture_.below(kFaultLaterNs));
            if (!event) return event.status();
            process.kill();
            event = process.wait(monotonic_ns() + hang_ns);
            if (!event) return event.status();
            if (event.value() == Killable::Event::kTime) {
                call_bad(Judgement::Verdict::kHung, "the writing process did not die");
                return Status::ok();
            }
            point_.kills = 1;
        }
        if (event.value() == Killable::Event::kInterrupted) return {Code::kUnavailable, "interrupted"};
        return Status::ok();
    }
    Status look_at_end(int status) {
        if (WIFSIGNALED(status) && (point_.kills == 0 || WTERMSIG(status) != SIGKILL))
            call_bad(Judgement::Verdict::kWrong,
                     fmt::format("the writing process was ended by signal {}", WTERMSIG(status)));
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            return {Code::kIo, where_ + "the writing process ended by itself: " + torture_.ground_.words()};
        return Status::ok();
    }

    Status judge(Campaign& campaign) {
        // A file that was closed well is complete without recovery.
        Judgement closed;
        if (told_.closed_well) {
            const auto content = torture_.ground_.content();
            if (!content) return content.status();
            closed = judge_closed(seed_, operations_, told_, content.value());
        }
        auto judgement = torture_.recover_and_judge(
            where_,
            [&](const Recovery& recovery, std::span<const std::byte> content) {
                if (told_.closed) return judge_closed(seed_, operations_, told_, content);
                // A staging area that takes nothing has no log.
                point_.uncommitted = recovery.uncommitted || told_.given_up ||
                                     (!recovery.any_log && !fault_.kind->of_target);
                return judge_killed(seed_, told_, point_.uncommitted, content);
            },
            campaign);
        if (!judgement) return judgement.status();
        point_.judgement = std::move(judgement).value();
        if (is_bad()) return Status::ok();
        if (closed.verdict != Judgement::Verdict::kRecovered)
            call_bad(Judgement::Verdict::kUnreported,
                     "the close succeeded, but some bytes were only in the log: " + closed.what);
        else if (hid_failure())
            call_bad(Judgement::Verdict::kUnreported, "no operation, no commit and no close reported it");
        return Status::ok();
    }
    // No call told of the fault, though it has to be told.
    [[nodiscard]] bool hid_failure() const {
        // The failed bytes may be cut off before they are tried again, or the close may have written them. A file that
        // is right by itself shows that, unless it was only synchronized too late.
        const bool moot = told_.closed_well && (fault_.kind->of_target || fault_.on_error == OnError::kRetry) &&
                          fault_.kind->operation != io::Operation::kSync;
        return told_.closed && told_.fault_met && told_.failures == 0 && fault_.has_to_be_told() && !moot;
    }

    Torture& torture_;
    const FaultCase& fault_;
    const bool killed_;
    const std::uint64_t seed_, operations_, nth_;
    const std::string where_;   // the beginning of each text on a failure
    Told told_;
    Point point_;
};

Torture::NextPoint Torture::fault_points(bool of_target, bool killed, Campaign& campaign) {
    const bool durable = !ground_.in_memory();
    auto tour = std::make_shared<Tour>(Tour{.cases = fault_cases(of_target, durable, order_.settings)});
    if (!durable) campaign.left_out = "durability=node and failing syncs: the staging area is in memory";
    if (tour->cases.empty()) campaign.skipped = "there is no fault for these options";
    return [this, tour, killed](Campaign& its) -> Result<Point> {
        const std::size_t at = tour->at++ % tour->cases.size();
        auto tried = FaultPoint(*this, tour->cases[at], tour->nth[at], killed).run(its);
        if (tried) tour->nth[at] = tried.value().counts ? tour->nth[at] + 1 : 1;
        return tried;
    };
}

}   // namespace forebay::torture
