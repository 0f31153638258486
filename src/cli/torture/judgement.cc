#include "cli/torture/judgement.h"

#include <fmt/format.h>

#include <algorithm>

namespace forebay::cli {

namespace {

constexpr std::size_t kFailuresTold = 5;

std::string difference(std::span<const std::byte> content, std::span<const std::byte> expected) {
    const std::size_t common = std::min(content.size(), expected.size());
    const auto at = std::mismatch(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(common), expected.begin()).first - content.begin();
    const std::string sizes = content.size() == expected.size() ? "" : fmt::format("{} bytes instead of {}, ", content.size(), expected.size());
    return static_cast<std::size_t>(at) == common ? sizes + "the same as far as both go" : fmt::format("{}the first difference is at {}", sizes, at);
}

}   // namespace

Judgement judge(Oracle oracle, std::uint64_t reported, std::span<const std::byte> content) {
    const auto is = [&](const std::vector<std::byte>& expected) { return std::equal(content.begin(), content.end(), expected.begin(), expected.end()); };
    const std::vector<std::byte>& last = oracle.after(reported);
    if (is(last)) return {.commit = reported};
    std::string what = fmt::format("after {} commits the file is none of the states there may be: {}", reported, difference(content, last));
    if (is(oracle.after(reported + 1))) return {.commit = reported + 1};
    return {.verdict = Judgement::Verdict::kLost, .what = std::move(what)};
}

void Campaign::count(const Judgement& judgement) {
    ++points;
    recovered += judgement.verdict == Judgement::Verdict::kRecovered;
    lost += judgement.verdict == Judgement::Verdict::kLost;
    hung += judgement.verdict == Judgement::Verdict::kHung;
    if (!judgement.what.empty() && failures.size() < kFailuresTold) failures.push_back(judgement.what);
}

bool all_well(std::span<const Campaign> campaigns) noexcept {
    return std::all_of(campaigns.begin(), campaigns.end(), [](const Campaign& campaign) { return campaign.all_well(); }) &&
           std::any_of(campaigns.begin(), campaigns.end(), [](const Campaign& campaign) { return campaign.skipped.empty(); });
}

}   // namespace forebay::cli
