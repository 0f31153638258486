#include "file/recover_collectively.h"

#include <algorithm>
#include <cstdint>

#include "base/attempt.h"

namespace forebay::file {

namespace {

enum class Found : std::uint64_t { kNothing, kRecovered, kUnusable, kInUse };

Found found_by(const Result<std::string>& look) {
    if (!look) return look.status().retryable() ? Found::kInUse : Found::kUnusable;
    return look.value().empty() ? Found::kNothing : Found::kRecovered;
}

}   // namespace

Result<Looked> recover_collectively(Team& team, const Look& look) {
    Looked looked;
    bool looks = true, said = false;
    bool once_more = true;          // for members that failed while no member did anything
    int rounds = team.size() + 1;   // each member recovers at most once
    bool in_use_before = false;
    for (;;) {
        Found found = Found::kNothing;
        std::string text;
        if (looks) {
            found = Found::kUnusable;
            looked.mine = attempt([&] {
                auto mine = look();
                found = found_by(mine);
                if (mine) text = std::move(mine).value();
                return mine.status();
            });
        }
        const auto all = team.exchange(static_cast<std::uint64_t>(found));
        if (!all) return all.status();
        const auto first = [&](auto&& is) {
            return static_cast<int>(std::find_if(all.value().begin(), all.value().end(),
                                                 [&](std::uint64_t one) { return is(static_cast<Found>(one)); }) -
                                    all.value().begin());
        };
        const auto anybody = [&](Found what) { return first([&](Found one) { return one == what; }) < team.size(); };
        const bool recovered = anybody(Found::kRecovered), in_use = anybody(Found::kInUse),
                   unusable = anybody(Found::kUnusable);
        if (recovered && !said && first([](Found one) { return one == Found::kRecovered; }) == team.rank())
            looked.say = std::move(text);
        said = said || recovered;
        looks = !looked.mine;
        if (in_use || unusable) {
            // After a recovery the obstacle of other members may be gone. If members got in each other's way, one of
            // them came through; another process may be done by now. A process that keeps the file is not waited for.
            const bool helps = recovered || (in_use && !in_use_before);
            in_use_before = in_use && !recovered;
            if (helps && rounds-- > 0) continue;
            // The last node of a joint recovery reports a whole file. A file that was whole gives no report.
            if (unusable && once_more) {
                once_more = false;
                continue;
            }
        }
        looked.first_to_fail = !said && first([](Found one) {
                                            return one == Found::kUnusable || one == Found::kInUse;
                                        }) == team.rank();
        return looked;
    }
}

}   // namespace forebay::file
