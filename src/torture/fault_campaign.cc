// The campaigns in which calls of the writing process fail.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "torture/campaign.h"

namespace forebay::torture {

namespace {

constexpr std::uint64_t kFaultOperationsMin = 10, kFaultOperationsMore = 120;
constexpr std::uint64_t kFaultLaterNs = 6'000'000;   // after the fault, at most, and then the kill

// Which case comes next, and at which call. A case in which the fault was not met, since there were fewer calls, begins
// anew.
struct Tour {
    std::vector<FaultCase> cases;
    std::vector<std::uint64_t> nth = std::vector<std::uint64_t>(cases.size(), 1);
    std::size_t at = 0;
};

}   // namespace

Torture::NextPoint Torture::fault_points(bool of_target, bool killed, Campaign& campaign) {
    const bool durable = !ground_.in_memory();
    auto tour = std::make_shared<Tour>(Tour{.cases = fault_cases(of_target, durable, order_.settings)});
    if (!durable) campaign.left_out = "durability=node, and with it syncs that fail: the staging area is in memory";
    if (tour->cases.empty()) campaign.skipped = "there is no fault for these options";
    return [this, tour, killed](Campaign& its) -> Result<Point> {
        const std::size_t at = tour->at++ % tour->cases.size();
        auto tried = fault_point(tour->cases[at], tour->nth[at], killed, its);
        if (tried) tour->nth[at] = tried.value().counts ? tour->nth[at] + 1 : 1;
        return tried;
    };
}

Result<Torture::Point> Torture::fault_point(const FaultCase& fault, std::uint64_t nth, bool killed,
                                            Campaign& campaign) {
    const std::uint64_t seed = seed_++;
    const std::string where = fmt::format("seed {}, {} at call {}: ", seed, fault.text(), nth);
    FOREBAY_TRY(ground_.prepare(Workload::initial(seed)));
    VictimOrder order{.seed = seed,
                      .nls = ground_.nls(),
                      .file = ground_.file(),
                      .settings = order_.settings,
                      .fault = std::string(fault.kind->name),
                      .nth = nth,
                      .for_ever = fault.for_ever,
                      .operations = kFaultOperationsMin + below(kFaultOperationsMore),
                      .close = !killed,
                      .spoil = order_.spoil};
    for (std::string& setting : fault.settings()) order.settings.push_back(std::move(setting));
    auto victim = start_victim(order);
    if (!victim) return victim.status();
    Killable& process = victim.value();
    Point point;
    const auto bad = [&](Judgement::Verdict verdict, std::string what) {
        point.judgement = {.verdict = verdict, .what = where + std::move(what)};
        return point;
    };
    const std::uint64_t deadline_ns = monotonic_ns() + order_.hang_ns;
    auto event = process.wait(deadline_ns, killed ? 1 : SIZE_MAX);
    while (event && event.value() == Killable::Event::kOutput && !understand(process.output()).fault_met)
        event = process.wait(deadline_ns, process.output().size() + 1);
    if (!event) return event.status();
    if (event.value() == Killable::Event::kTime)
        return bad(Judgement::Verdict::kHung,
                   fmt::format("the writing process did not do its part within {} s", order_.hang_ns / 1'000'000'000));
    if (killed && event.value() == Killable::Event::kOutput) {
        event = process.wait(monotonic_ns() + below(kFaultLaterNs));
        if (!event) return event.status();
        process.kill();
        event = process.wait(monotonic_ns() + order_.hang_ns);
        if (!event) return event.status();
        if (event.value() == Killable::Event::kTime)
            return bad(Judgement::Verdict::kHung, "the writing process did not die");
        point.kills = 1;
    }
    if (event.value() == Killable::Event::kInterrupted) return Status(Code::kUnavailable, "interrupted");
    const int status = process.wait_status();
    if (WIFSIGNALED(status) && (point.kills == 0 || WTERMSIG(status) != SIGKILL))
        return bad(Judgement::Verdict::kWrong,
                   fmt::format("the writing process was ended by signal {}", WTERMSIG(status)));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return Status(Code::kIo, where + "the process that writes ended by itself: " + ground_.words());

    const Told told = understand(process.output());
    point.reported = told.good_commits;
    point.told = told.failures;
    point.counts = told.fault_met;
    if (!told.fault_met && !told.closed) return point;   // it was to be killed, and ended: nothing to judge
    // A file that was closed well is complete without recovery.
    Judgement closed;
    if (told.closed_well) {
        const auto content = ground_.content();
        if (!content) return content.status();
        closed = judge_closed(seed, order.operations, told, content.value());
    }
    auto judgement = recover_and_judge(
        where,
        [&](const Recovery& recovery, std::span<const std::byte> content) {
            if (told.closed) return judge_closed(seed, order.operations, told, content);
            // Of a staging area that takes nothing there is no log.
            point.uncommitted = recovery.uncommitted || told.given_up || (!recovery.any_log && !fault.kind->of_target);
            return judge_killed(seed, told, point.uncommitted, content);
        },
        campaign);
    if (!judgement) return judgement.status();
    point.judgement = std::move(judgement).value();
    if (point.judgement.verdict != Judgement::Verdict::kRecovered) return point;
    if (closed.verdict != Judgement::Verdict::kRecovered)
        return bad(Judgement::Verdict::kUnreported,
                   "the log alone held bytes that close had called written: " + closed.what);
    // What has failed may be cut off before it is tried again, or may have been written by the close: a file that is
    // right by itself shows that nothing was left to be written. One that was only synchronized too late does not show
    // it.
    const bool moot = told.closed_well && (fault.kind->of_target || fault.on_error == OnError::kRetry) &&
                      fault.kind->operation != io::Operation::kSync;
    if (told.closed && told.fault_met && told.failures == 0 && fault.has_to_be_told() && !moot)
        return bad(Judgement::Verdict::kUnreported, "neither an operation nor a commit nor the close told of it");
    return point;
}

}   // namespace forebay::torture
