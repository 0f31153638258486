#include "torture/campaign.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "torture/strace.h"
#include "torture/victim.h"

namespace forebay::torture {

namespace {

constexpr std::uint64_t kReportsMax = 24;       // maximum number of commits before a kill
constexpr std::uint64_t kLaterNs = 4'000'000;   // maximum delay of the kill after them
constexpr std::uint64_t kRecoveryKillsMax = 6;

bool was_killed(int wait_status) { return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL; }

Status interrupted_status() { return {Code::kUnavailable, "interrupted"}; }

Judgement hung(std::string what) { return {.verdict = Judgement::Verdict::kHung, .what = std::move(what)}; }
Judgement lost(std::string what) { return {.verdict = Judgement::Verdict::kLost, .what = std::move(what)}; }

}   // namespace

Torture::Torture(Ground& ground, TortureOrder order, Progress progress)
    : ground_(ground),
      order_(std::move(order)),
      seed_(order_.seed),
      dice_(order_.seed),
      progress_(std::move(progress)) {
    for (std::string& name : names(order_.server)) {
        Campaign& campaign = campaigns_.emplace_back(Campaign{.name = std::move(name)});
        if (!order_.only.empty() && order_.only != campaign.name) campaign.skipped = "another campaign was requested";
    }
}

std::vector<std::string> Torture::names(bool server) {
    if (server) return {"connection cut", "client killed", "server killed", "stopped for a while", "all of these"};
    return {"killed while writing",          "killed at the Nth write call", "killed while recovering",
            "killed again while recovering", "target fails, closed",         "target fails, killed",
            "staging fails, closed",         "staging fails, killed"};
}

Result<std::vector<Campaign>> Torture::run() {
    if (!order_.server) {
        auto strace = find_working_strace(ground_, order_.hang_ns);
        if (!strace) return strace.status();
        strace_ = std::move(strace.value().command);
        if (!strace.value().why_not.empty()) campaigns_[1].skipped = std::move(strace.value().why_not);
    }
    std::vector<NextPoint> next;
    for (std::size_t i = 0; i < campaigns_.size(); ++i)
        next.push_back(order_.server ? server_points(i) : points_of(static_cast<How>(i), campaigns_[i]));
    const std::uint64_t begin_ns = monotonic_ns();
    std::uint64_t left = static_cast<std::uint64_t>(
        std::count_if(campaigns_.begin(), campaigns_.end(), [](const Campaign& each) { return each.skipped.empty(); }));
    bool well = true;
    for (std::size_t i = 0; i < campaigns_.size() && !interrupted(); ++i) {
        Campaign& campaign = campaigns_[i];
        if (!campaign.skipped.empty()) continue;
        if (!well) {
            campaign.skipped = "an earlier campaign failed, and its files are kept";
            continue;
        }
        const std::uint64_t now = monotonic_ns(), end = begin_ns + order_.duration_ns;
        const Status fought = fight(next[i], campaign, now + (end > now ? end - now : 0) / left--);
        if (!fought && !interrupted()) return fought;
        well = campaign.bad() == 0;
    }
    return campaigns_;
}

Torture::NextPoint Torture::points_of(How how, Campaign& campaign) {
    switch (how) {
        case How::kTargetFails: return fault_points(true, false, campaign);
        case How::kTargetFailsThenKilled: return fault_points(true, true, campaign);
        case How::kStagingFails: return fault_points(false, false, campaign);
        case How::kStagingFailsThenKilled: return fault_points(false, true, campaign);
        default: break;
    }
    // If the first run of a kill at the Nth call does not count, the count starts again at the first call.
    return [this, how, nth = std::uint64_t{0}](Campaign& its) mutable {
        auto tried = kill_point(how, ++nth, its);
        if (tried && !tried.value().counts && its.points == 0) nth = 0;
        return tried;
    };
}

Status Torture::fight(const NextPoint& next, Campaign& campaign, std::uint64_t until_ns) {
    std::uint64_t in_vain = 0;
    do {
        progress_(campaigns_, static_cast<std::size_t>(&campaign - campaigns_.data()));
        const auto tried = next(campaign);
        if (!tried) return tried.status();
        const Point& point = tried.value();
        if (point.counts) {
            campaign.kills += point.kills;
            campaign.commits += point.reported;
            campaign.told += point.told;
            campaign.uncommitted += point.uncommitted;
            campaign.count(point.judgement);
        } else if (point.judgement.verdict != Judgement::Verdict::kRecovered) {
            campaign.count(point.judgement);   // an incomplete point that still found an error
        } else if (campaign.points == 0) {
            ++in_vain;
        }
        // The evidence says more than a message, so it stays.
        if (campaign.bad() > 0) {
            ground_.keep();
            return Status::ok();
        }
    } while (monotonic_ns() < until_ns || (campaign.points == 0 && in_vain > 0 && in_vain < 100));
    return Status::ok();
}

Result<Torture::Point> Torture::kill_point(How how, std::uint64_t nth, Campaign& campaign) {
    const std::uint64_t seed = seed_++;
    FOREBAY_TRY(ground_.prepare(Workload::initial(seed)));
    const auto reported = how == How::kAtACall ? kill_at_a_call(seed, nth) : kill_at_an_instant(seed);
    if (!reported) return reported.status();
    Point point;
    if (!reported.value()) {
        point.judgement = hung(fmt::format("seed {}: the writing process did not commit, or did not die, within {} s",
                                           seed, order_.hang_ns / 1'000'000'000));
        return point;
    }
    point.reported = *reported.value();
    const std::uint64_t kills = how == How::kRecovering        ? 1
                                : how == How::kRecoveringAgain ? 2 + below(kRecoveryKillsMax - 1)
                                                               : 0;
    std::uint64_t killed = 0;
    while (killed < kills) {
        const auto one = kill_recovery();
        if (!one) return one.status();
        if (!one.value()) break;
        ++killed;
    }
    point.kills = 1 + killed;
    point.counts = killed >= std::min<std::uint64_t>(kills, 2);
    auto judgement = recover_and_judge(
        fmt::format("seed {}: ", seed),
        [&](const Recovery&, std::span<const std::byte> content) { return judge(seed, point.reported, content); },
        campaign);
    if (!judgement) return judgement.status();
    point.judgement = std::move(judgement).value();
    return point;
}

Result<Killable> Torture::start_victim(const VictimOrder& order) {
    std::vector<std::string> command{ground_.self};
    for (std::string& argument : arguments_of(order)) command.push_back(std::move(argument));
    return Killable::start(ground_.signals, command, ground_.words_file());
}

Result<std::optional<std::uint64_t>> Torture::kill_at_an_instant(std::uint64_t seed) {
    auto victim = start_victim(
        {.seed = seed, .nls = ground_.nls(), .file = ground_.file(), .settings = order_.settings});
    if (!victim) return victim.status();
    Killable& process = victim.value();
    auto event = process.wait(monotonic_ns() + order_.hang_ns, below(kReportsMax));
    if (event && event.value() == Killable::Event::kOutput) event = process.wait(monotonic_ns() + below(kLaterNs));
    else if (event && event.value() == Killable::Event::kTime) return std::optional<std::uint64_t>();
    if (!event) return event.status();
    process.kill();
    const auto end = process.wait(monotonic_ns() + order_.hang_ns);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kInterrupted) return interrupted_status();
    if (end.value() == Killable::Event::kTime) return std::optional<std::uint64_t>();
    if (!was_killed(process.wait_status()))
        return Status(Code::kIo, "the writing process ended by itself: " + ground_.words());
    return std::optional<std::uint64_t>(process.output().size());
}

Result<std::optional<std::uint64_t>> Torture::kill_at_a_call(std::uint64_t seed, std::uint64_t nth) {
    std::vector<std::string> command = strace_;
    command.push_back(fmt::format("inject={}:signal=KILL:when={}", kWriteCalls, nth));
    command.push_back(ground_.self);
    for (std::string& argument :
         arguments_of({.seed = seed, .nls = ground_.nls(), .file = ground_.file(), .settings = order_.settings}))
        command.push_back(std::move(argument));
    auto victim = Killable::start(ground_.signals, command, ground_.words_file());
    if (!victim) return victim.status();
    const auto end = victim.value().wait(monotonic_ns() + order_.hang_ns);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kInterrupted) return interrupted_status();
    if (end.value() == Killable::Event::kTime) return std::optional<std::uint64_t>();
    if (!was_killed(victim.value().wait_status()))
        return Status(Code::kIo, "the writing process ended by itself: " + ground_.words());
    return std::optional<std::uint64_t>(victim.value().output().size());
}

Result<Killable> Torture::start_recovery() {
    return Killable::start(ground_.signals, {ground_.command, "recover", "--json", ground_.nls()},
                           ground_.words_file());
}

Result<bool> Torture::kill_recovery() {
    auto recovery = start_recovery();
    if (!recovery) return recovery.status();
    const auto event = recovery.value().wait(monotonic_ns() + below(recovery_ns_));
    if (!event) return event.status();
    recovery.value().kill();
    const auto end = recovery.value().wait(monotonic_ns() + order_.hang_ns);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kInterrupted) return interrupted_status();
    return end.value() == Killable::Event::kEnded && was_killed(recovery.value().wait_status());
}

Result<Judgement> Torture::recover_and_judge(const std::string& where, const Judge& judge, Campaign& campaign) {
    const std::uint64_t begin_ns = monotonic_ns();
    auto recovery = start_recovery();
    if (!recovery) return recovery.status();
    Killable& process = recovery.value();
    const auto end = process.wait(begin_ns + order_.hang_ns);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kInterrupted) return interrupted_status();
    if (end.value() == Killable::Event::kTime)
        return hung(fmt::format("{}recovery did not end within {} s", where, order_.hang_ns / 1'000'000'000));
    recovery_ns_ = std::max<std::uint64_t>(monotonic_ns() - begin_ns, 1'000'000);
    campaign.worst_recovery_ns = std::max(campaign.worst_recovery_ns, recovery_ns_);
    const auto report = nlohmann::json::parse(process.output(), nullptr, false);
    if (process.wait_status() != 0) {
        std::string why = ground_.words();
        if (report.is_object())
            for (const auto& file : report.value("files", nlohmann::json::array())) why += file.value("message", "");
        return lost(fmt::format(
            "{}recovery ended with {} {}: {}", where, WIFSIGNALED(process.wait_status()) ? "signal" : "status",
            WIFSIGNALED(process.wait_status()) ? WTERMSIG(process.wait_status()) : WEXITSTATUS(process.wait_status()),
            why));
    }
    Recovery told;
    if (report.is_object())
        for (const auto& file : report.value("files", nlohmann::json::array())) {
            campaign.replayed_bytes += file.value("bytes", std::uint64_t{0});
            told.any_log = true;
            told.uncommitted = told.uncommitted || file.value("uncommitted_bytes", std::uint64_t{0}) > 0;
        }
    if (ground_.anything_staged()) return lost(where + "recovery left something on the staging area");
    const auto content = ground_.content();
    if (!content) return lost(where + content.status().message());
    Judgement judgement = judge(told, content.value());
    if (!judgement.what.empty()) judgement.what = where + judgement.what;
    return judgement;
}

}   // namespace forebay::torture
