// The campaigns that disconnect, stop and kill a staging server and its clients.
#include <fmt/format.h>

#include "torture/campaign.h"
#include "torture/server_round.h"

namespace forebay::torture {

Torture::NextPoint Torture::server_points(std::size_t number) {
    return [this, harm = static_cast<ServerHarm>(number)](Campaign& campaign) -> Result<Point> {
        const std::uint64_t seed = seed_++;
        const std::string where = fmt::format("seed {}: ", seed);
        ServerRound round(ground_, order_, harm, seed);
        auto seen = round.run();
        if (!seen) return seen.status();
        campaign.servers += round.figures();
        Point point;
        point.reported = round.commits();
        point.told = round.told();
        point.kills = round.figures().clients_killed + round.figures().servers_killed;
        point.judgement = std::move(seen).value();
        if (point.judgement.verdict != Judgement::Verdict::kRecovered) {
            point.judgement.what = where + point.judgement.what;
            return point;
        }
        auto judgement = recover_and_judge(
            where,
            [&](const Recovery&, std::span<const std::byte> content) {
                point.uncommitted = round.lineage().loose();
                return round.lineage().judge(content);
            },
            campaign);
        if (!judgement) return judgement.status();
        point.judgement = std::move(judgement).value();
        return point;
    };
}

}   // namespace forebay::torture
