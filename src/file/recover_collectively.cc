#include "file/recover_collectively.h"

#include <algorithm>
#include <cstdint>

#include "base/attempt.h"

namespace forebay::file {

namespace {

// What came of one member's look.
enum class Found : std::uint64_t { kNothing, kRecovered, kUnusable, kInUse };

Found found_by(const Result<std::string>& look) {
    if (!look) return look.status().retryable() ? Found::kInUse : Found::kUnusable;
    return look.value().empty() ? Found::kNothing : Found::kRecovered;
}

}   // namespace

Result<Looked> recover_collectively(Team& team, const Look& look) {
    Looked looked;
    bool looks = true, said = false;
    bool once_more = true;          // for those who could not use it while nobody was seen to do anything
    int rounds = team.size() + 1;   // each member recovers once at most
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
            // Something was done: what stood in the way of others may be gone. One of those who got in each other's way
            // came through, or it was somebody else, who may be done by now; but whoever keeps the file for good is not
            // waited for.
            const bool helps = recovered || (in_use && !in_use_before);
            in_use_before = in_use && !recovered;
            if (helps && rounds-- > 0) continue;
            // Only the last one to tell finds a file whole that all have to recover, and has nothing to say if it was
            // whole before.
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
