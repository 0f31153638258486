// The output of `forebay torture`: the table, the same as JSON, and a line that is drawn over and over meanwhile.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "torture/campaign.h"

namespace forebay::torture {

struct Torment {
    std::string nls, target;
    std::uint64_t seed = 0;
    std::vector<std::string> settings{};   // given with -o
    double seconds = 0;
    std::vector<Campaign> campaigns;
    std::optional<Speed> speed{};
    std::string kept{};   // where the evidence is; empty: nothing went wrong
    bool interrupted = false;

    [[nodiscard]] bool well() const noexcept { return !interrupted && all_well(campaigns) && (!speed || speed->right); }
};

[[nodiscard]] std::string as_text(const Torment& torment);
[[nodiscard]] nlohmann::ordered_json as_json(const Torment& torment);
void draw_progress(std::span<const Campaign> campaigns, std::size_t at, double share_of_time);

}   // namespace forebay::torture
