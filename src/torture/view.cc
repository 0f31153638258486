#include "torture/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/options.h"

namespace forebay::torture {

namespace {

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }
double per_second(std::uint64_t bytes, std::uint64_t ns) {
    return static_cast<double>(bytes) / std::max(seconds(ns), 1e-9) / 1048576;
}

void append_table(std::string& text, std::span<const Campaign> campaigns) {
    const auto out = std::back_inserter(text);
    fmt::format_to(out, "{:<30}{:>8}{:>8}{:>8}{:>8}{:>8}{:>12}{:>18}\n", "campaign", "points", "well", "lost", "hung",
                   "wrong", "unreported", "worst recovery");
    for (const Campaign& campaign : campaigns) {
        if (!campaign.skipped.empty()) fmt::format_to(out, "{:<30}skipped: {}\n", campaign.name, campaign.skipped);
        else
            fmt::format_to(out, "{:<30}{:>8}{:>8}{:>8}{:>8}{:>8}{:>12}{:>16.3f} s\n", campaign.name, campaign.points,
                           campaign.recovered, campaign.lost, campaign.hung, campaign.wrong, campaign.unreported,
                           seconds(campaign.worst_recovery_ns));
    }
}

void append_sums(std::string& text, std::span<const Campaign> campaigns) {
    const auto out = std::back_inserter(text);
    ServerFigures all;
    std::uint64_t kills = 0, replayed = 0, told = 0, uncommitted = 0;
    for (const Campaign& campaign : campaigns) {
        kills += campaign.kills;
        told += campaign.told;
        uncommitted += campaign.uncommitted;
        replayed += campaign.replayed_bytes;
        all += campaign.servers;
        if (!campaign.left_out.empty()) fmt::format_to(out, "  {}: without {}\n", campaign.name, campaign.left_out);
        for (const std::string& failure : campaign.failures) fmt::format_to(out, "  {}: {}\n", campaign.name, failure);
    }
    fmt::format_to(out, "\n{} processes were killed, {} calls reported a failure; recovery wrote {} from the logs.\n",
                   kills, told, format_size(replayed));
    if (all.sessions > 0)
        fmt::format_to(out,
                       "{} clients wrote {} through servers: {} closed their file, {} could not open it, {} reported a "
                       "failure, {} continued without their server. {} connections were cut, {} servers and {} clients "
                       "killed, {} processes stopped for a while. Of {} readers, {} could not open the file.\n",
                       all.sessions, format_size(all.committed_bytes), all.closed, all.refused, all.failed, all.direct,
                       all.cuts, all.servers_killed, all.clients_killed, all.stops, all.readers, all.readers_refused);
    if (uncommitted > 0)
        fmt::format_to(
            out,
            "At {} points bytes had reached the file before their commit, for lack of room; there, only the other "
            "bytes were compared.\n",
            uncommitted);
}

void append_speed(std::string& text, const Speed& speed) {
    const auto out = std::back_inserter(text);
    fmt::format_to(out,
                   "A log of {} was recovered in {:.2f} s ({:.0f} MiB/s); writing as much in order, "
                   "and syncing it, took {:.2f} s ({:.0f} MiB/s); medians of five.\n",
                   format_size(speed.bytes), seconds(speed.recovery_ns), per_second(speed.bytes, speed.recovery_ns),
                   seconds(speed.sequential_ns), per_second(speed.bytes, speed.sequential_ns));
    if (!speed.right) fmt::format_to(out, "The recovered file differs from the written one.\n");
}

const char* verdict(const Torment& torment) {
    if (torment.well()) return "Verdict: no byte was lost or wrong, no process hung, and each failure was reported.";
    if (torment.interrupted) return "Verdict: none, it was interrupted.";
    const bool nothing = std::any_of(torment.campaigns.begin(), torment.campaigns.end(),
                                     [](const Campaign& each) { return each.skipped.empty() && each.points == 0; });
    return !torment.kept.empty() || !nothing ? "Verdict: a fault was found."
                                             : "Verdict: none, a campaign reached no point; give it more time.";
}

}   // namespace

std::string as_text(const Torment& torment) {
    std::string text = fmt::format("staging area below {}, files below {}, seed {}, {:.0f} s\n\n", torment.nls,
                                   torment.target, torment.seed, torment.seconds);
    append_table(text, torment.campaigns);
    append_sums(text, torment.campaigns);
    if (torment.speed) append_speed(text, *torment.speed);
    if (!torment.kept.empty()) text += fmt::format("The files of the failed point are in {}\n", torment.kept);
    return text + verdict(torment) + "\n";
}

namespace {

nlohmann::ordered_json as_json(const ServerFigures& servers) {
    return {{"sessions", servers.sessions},
            {"closed", servers.closed},
            {"refused", servers.refused},
            {"failed", servers.failed},
            {"direct", servers.direct},
            {"clients_killed", servers.clients_killed},
            {"servers_killed", servers.servers_killed},
            {"cuts", servers.cuts},
            {"stops", servers.stops},
            {"readers", servers.readers},
            {"readers_refused", servers.readers_refused},
            {"committed_bytes", servers.committed_bytes}};
}

}   // namespace

nlohmann::ordered_json as_json(const Torment& torment) {
    nlohmann::ordered_json result{{"nls", torment.nls},         {"target", torment.target},
                                  {"seed", torment.seed},       {"options", torment.settings},
                                  {"seconds", torment.seconds}, {"campaigns", nlohmann::ordered_json::array()}};
    for (const Campaign& campaign : torment.campaigns)
        result["campaigns"].push_back({{"name", campaign.name},
                                       {"skipped", campaign.skipped},
                                       {"points", campaign.points},
                                       {"recovered", campaign.recovered},
                                       {"lost", campaign.lost},
                                       {"hung", campaign.hung},
                                       {"wrong", campaign.wrong},
                                       {"unreported", campaign.unreported},
                                       {"left_out", campaign.left_out},
                                       {"told", campaign.told},
                                       {"uncommitted", campaign.uncommitted},
                                       {"kills", campaign.kills},
                                       {"commits", campaign.commits},
                                       {"replayed_bytes", campaign.replayed_bytes},
                                       {"worst_recovery_s", seconds(campaign.worst_recovery_ns)},
                                       {"servers", as_json(campaign.servers)},
                                       {"failures", campaign.failures}});
    if (torment.speed)
        result["speed"] = {{"bytes", torment.speed->bytes},
                           {"recovery_s", seconds(torment.speed->recovery_ns)},
                           {"sequential_s", seconds(torment.speed->sequential_ns)},
                           {"right", torment.speed->right}};
    result["kept"] = torment.kept;
    result["interrupted"] = torment.interrupted;
    result["all_well"] = torment.well();
    return result;
}

void draw_progress(std::span<const Campaign> campaigns, std::size_t at, double share_of_time) {
    constexpr std::size_t kCells = 30;
    const auto full = static_cast<std::size_t>(std::clamp(share_of_time, 0.0, 1.0) * kCells);
    fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {}: {} points, {} failed", "", full, "", kCells - full,
               campaigns[at].name, campaigns[at].points, campaigns[at].bad());
    (void)std::fflush(stderr);
}

}   // namespace forebay::torture
