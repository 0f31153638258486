#include "cli/torture/campaign.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "cli/torture/strace.h"
#include "cli/torture/victim.h"

namespace forebay::cli {

namespace {

constexpr std::uint64_t kReportsMax = 24;              // commits before a kill, at most
constexpr std::uint64_t kLaterNs = 4'000'000;          // and then so long, at most
constexpr std::uint64_t kRecoveryKillsMax = 6;

bool was_killed(int wait_status) { return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL; }

Status interrupted_status() { return {Code::kUnavailable, "interrupted"}; }

Judgement hung(std::string what) { return {.verdict = Judgement::Verdict::kHung, .what = std::move(what)}; }
Judgement lost(std::string what) { return {.verdict = Judgement::Verdict::kLost, .what = std::move(what)}; }

}   // namespace

Torture::Torture(Ground& ground, std::uint64_t seed, std::uint64_t duration_ns, std::vector<std::string> settings, Progress progress)
    : ground_(ground), seed_(seed), duration_ns_(duration_ns), random_(seed), settings_(std::move(settings)), progress_(std::move(progress)) {
    for (const char* name : {"killed while writing", "killed at the Nth write call", "killed while recovering", "killed again while recovering"})
        campaigns_.push_back({.name = name});
}

std::uint64_t Torture::below(std::uint64_t bound) noexcept {
    std::byte word[8];
    fill(word, random_++);
    std::uint64_t value = 0;
    for (const std::byte each : word) value = value << 8 | std::to_integer<std::uint64_t>(each);
    return value % bound;
}

Result<std::vector<Campaign>> Torture::run() {
    auto strace = find_working_strace(ground_, kHangNs);
    if (!strace) return strace.status();
    strace_ = std::move(strace.value().command);
    campaigns_[1].skipped = std::move(strace.value().why_not);
    constexpr How kHow[] = {How::kAtAnInstant, How::kAtACall, How::kRecovering, How::kRecoveringAgain};
    const std::uint64_t begin_ns = monotonic_ns();
    std::uint64_t left = static_cast<std::uint64_t>(std::count_if(campaigns_.begin(), campaigns_.end(), [](const Campaign& each) { return each.skipped.empty(); }));
    for (std::size_t i = 0; i < campaigns_.size() && !interrupted(); ++i) {
        if (!campaigns_[i].skipped.empty()) continue;
        const std::uint64_t now = monotonic_ns(), end = begin_ns + duration_ns_;
        const Status fought = fight(kHow[i], campaigns_[i], now + (end > now ? end - now : 0) / left--);
        if (!fought && !interrupted()) return fought;
    }
    return campaigns_;
}

Status Torture::fight(How how, Campaign& campaign, std::uint64_t until_ns) {
    std::uint64_t in_vain = 0;
    for (std::uint64_t nth = 1; nth == 1 || monotonic_ns() < until_ns; ++nth) {
        progress_(campaigns_, static_cast<std::size_t>(&campaign - campaigns_.data()));
        const auto tried = point(how, nth, campaign);
        if (!tried) return tried.status();
        if (tried.value().counts) {
            campaign.kills += 1 + tried.value().kills;
            campaign.commits += tried.value().reported;
            campaign.count(tried.value().judgement);
        } else if (tried.value().judgement.verdict != Judgement::Verdict::kRecovered) {
            campaign.count(tried.value().judgement);   // less was tried, and yet it went wrong
        } else if (campaign.points == 0 && ++in_vain < 100) {
            nth = 0;   // one point at least
        }
        // What is left of it tells more than words.
        if (campaign.lost + campaign.hung > 0) {
            ground_.keep();
            return Status::ok();
        }
    }
    return Status::ok();
}

Result<Torture::Point> Torture::point(How how, std::uint64_t nth, Campaign& campaign) {
    const std::uint64_t seed = seed_++;
    FOREBAY_TRY(ground_.prepare(Workload::initial(seed)));
    const auto reported = how == How::kAtACall ? kill_at_a_call(seed, nth) : kill_at_an_instant(seed);
    if (!reported) return reported.status();
    Point point;
    if (!reported.value()) {
        point.judgement = hung(fmt::format("seed {}: the writing process did not commit, or did not die, within {} s", seed, kHangNs / 1'000'000'000));
        return point;
    }
    point.reported = *reported.value();
    const std::uint64_t kills = how == How::kRecovering ? 1 : how == How::kRecoveringAgain ? 2 + below(kRecoveryKillsMax - 1) : 0;
    while (point.kills < kills) {
        const auto killed = kill_recovery();
        if (!killed) return killed.status();
        if (!killed.value()) break;
        ++point.kills;
    }
    point.counts = point.kills >= std::min<std::uint64_t>(kills, 2);
    auto judgement = recover_and_judge(seed, point.reported, campaign);
    if (!judgement) return judgement.status();
    point.judgement = std::move(judgement).value();
    return point;
}

Result<std::optional<std::uint64_t>> Torture::kill_at_an_instant(std::uint64_t seed) {
    std::vector<std::string> command{ground_.self};
    for (std::string& argument : arguments_of({seed, ground_.nls(), ground_.file(), 0, settings_})) command.push_back(std::move(argument));
    auto victim = Killable::start(ground_.signals, command, ground_.words_file());
    if (!victim) return victim.status();
    Killable& process = victim.value();
    auto event = process.wait(monotonic_ns() + kHangNs, below(kReportsMax));
    if (event && event.value() == Killable::Event::kOutput) event = process.wait(monotonic_ns() + below(kLaterNs));
    else if (event && event.value() == Killable::Event::kTime) return std::optional<std::uint64_t>();
    if (!event) return event.status();
    process.kill();
    const auto end = process.wait(monotonic_ns() + kHangNs);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kInterrupted) return interrupted_status();
    if (end.value() == Killable::Event::kTime) return std::optional<std::uint64_t>();
    if (!was_killed(process.wait_status())) return Status(Code::kIo, "the process that writes ended by itself: " + ground_.words());
    return std::optional<std::uint64_t>(process.output().size());
}

Result<std::optional<std::uint64_t>> Torture::kill_at_a_call(std::uint64_t seed, std::uint64_t nth) {
    std::vector<std::string> command = strace_;
    command.push_back(fmt::format("inject={}:signal=KILL:when={}", kWriteCalls, nth));
    command.push_back(ground_.self);
    for (std::string& argument : arguments_of({seed, ground_.nls(), ground_.file(), 0, settings_})) command.push_back(std::move(argument));
    auto victim = Killable::start(ground_.signals, command, ground_.words_file());
    if (!victim) return victim.status();
    const auto end = victim.value().wait(monotonic_ns() + kHangNs);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kInterrupted) return interrupted_status();
    if (end.value() == Killable::Event::kTime) return std::optional<std::uint64_t>();
    if (!was_killed(victim.value().wait_status())) return Status(Code::kIo, "the process that writes ended by itself: " + ground_.words());
    return std::optional<std::uint64_t>(victim.value().output().size());
}

Result<Killable> Torture::start_recovery() {
    return Killable::start(ground_.signals, {ground_.self, "recover", "--json", ground_.nls()}, ground_.words_file());
}

Result<bool> Torture::kill_recovery() {
    auto recovery = start_recovery();
    if (!recovery) return recovery.status();
    const auto event = recovery.value().wait(monotonic_ns() + below(recovery_ns_));
    if (!event) return event.status();
    recovery.value().kill();
    const auto end = recovery.value().wait(monotonic_ns() + kHangNs);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kInterrupted) return interrupted_status();
    return end.value() == Killable::Event::kEnded && was_killed(recovery.value().wait_status());
}

Result<Judgement> Torture::recover_and_judge(std::uint64_t seed, std::uint64_t reported, Campaign& campaign) {
    const std::uint64_t begin_ns = monotonic_ns();
    auto recovery = start_recovery();
    if (!recovery) return recovery.status();
    Killable& process = recovery.value();
    const auto end = process.wait(begin_ns + kHangNs);
    if (!end) return end.status();
    if (end.value() == Killable::Event::kInterrupted) return interrupted_status();
    if (end.value() == Killable::Event::kTime) return hung(fmt::format("seed {}: recovery did not end within {} s", seed, kHangNs / 1'000'000'000));
    recovery_ns_ = std::max<std::uint64_t>(monotonic_ns() - begin_ns, 1'000'000);
    campaign.worst_recovery_ns = std::max(campaign.worst_recovery_ns, recovery_ns_);
    const auto report = nlohmann::json::parse(process.output(), nullptr, false);
    if (process.wait_status() != 0) {
        std::string why = ground_.words();
        if (report.is_object())
            for (const auto& file : report.value("files", nlohmann::json::array())) why += file.value("message", "");
        return lost(fmt::format("seed {}: recovery ended with {} {}: {}", seed, WIFSIGNALED(process.wait_status()) ? "signal" : "status",
                                WIFSIGNALED(process.wait_status()) ? WTERMSIG(process.wait_status()) : WEXITSTATUS(process.wait_status()), why));
    }
    if (report.is_object())
        for (const auto& file : report.value("files", nlohmann::json::array())) campaign.replayed_bytes += file.value("bytes", std::uint64_t{0});
    if (ground_.anything_staged()) return lost(fmt::format("seed {}: recovery left something on the staging area", seed));
    const auto content = ground_.content();
    if (!content) return lost(fmt::format("seed {}: {}", seed, content.status().message()));
    Judgement judgement = judge(Oracle(seed), reported, content.value());
    if (!judgement.what.empty()) judgement.what = fmt::format("seed {}: {}", seed, judgement.what);
    return judgement;
}

}   // namespace forebay::cli
