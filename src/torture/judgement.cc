#include "torture/judgement.h"

#include <fmt/format.h>

#include <algorithm>

namespace forebay::torture {

namespace {

using Content = std::vector<std::byte>;
using Verdict = Judgement::Verdict;

constexpr std::size_t kFailuresTold = 5;

// The allowed content of a file: `bytes`, where any value is allowed at the loose places.
class Expected {
  public:
    explicit Expected(const Content& bytes)
        : size_min_(bytes.size()), size_max_(bytes.size()), bytes_(bytes), loose_(bytes.size(), false) {}

    // Allows that the operation was carried out, in part, or not at all.
    void loosen(const Operation& operation) {
        if (operation.kind == Operation::Kind::kCommit) return;
        const bool cut = operation.kind == Operation::Kind::kTruncate;
        const std::uint64_t end = cut ? operation.size : operation.offset + operation.size;
        if (cut) size_min_ = std::min(size_min_, end);
        size_max_ = std::max(size_max_, end);
        bytes_.resize(size_max_);
        loose_.resize(size_max_, false);
        const std::uint64_t begin = cut ? size_min_ : operation.offset;
        std::fill(loose_.begin() + static_cast<std::ptrdiff_t>(begin),
                  cut ? loose_.end() : loose_.begin() + static_cast<std::ptrdiff_t>(end), true);
    }

    [[nodiscard]] bool loose(std::size_t at) const { return at < loose_.size() && loose_[at]; }
    [[nodiscard]] bool size_fits(std::size_t size) const noexcept { return size >= size_min_ && size <= size_max_; }
    [[nodiscard]] bool differs(std::size_t at, std::byte byte) const {
        return !loose(at) && (at >= bytes_.size() || bytes_[at] != byte);
    }
    // Describes the first difference. Empty: the content is allowed.
    [[nodiscard]] std::string difference(std::span<const std::byte> content) const {
        std::string text;
        if (!size_fits(content.size()))
            text = fmt::format("{} bytes instead of {}, ", content.size(),
                               size_min_ == size_max_ ? fmt::format("{}", size_max_)
                                                      : fmt::format("{} to {}", size_min_, size_max_));
        const std::size_t common = std::min<std::size_t>(content.size(), bytes_.size());
        for (std::size_t at = 0; at < common; ++at)
            if (differs(at, content[at])) return text + fmt::format("the first difference is at {}", at);
        return text.empty() ? text : text + "equal up to the shorter size";
    }

  private:
    std::uint64_t size_min_, size_max_;
    Content bytes_;
    std::vector<bool> loose_;
};

// Returns true if every different byte is zero, or had that value in the file within `operations` operations.
bool is_of_the_past(const Content& base, std::uint64_t seed, std::uint64_t operations, const Expected& expected,
                    std::span<const std::byte> content) {
    std::vector<bool> open(content.size());
    for (std::size_t at = 0; at < content.size(); ++at)
        open[at] = content[at] != std::byte{0} && expected.differs(at, content[at]);
    Content bytes = base;
    const auto explain = [&](std::size_t begin, std::size_t end) {
        for (std::size_t at = begin; at < std::min({end, bytes.size(), content.size()}); ++at)
            if (open[at] && bytes[at] == content[at]) open[at] = false;
    };
    explain(0, bytes.size());
    Workload workload(seed);
    for (std::uint64_t i = 0; i < operations; ++i) {
        const Operation operation = workload.next();
        apply_operation(operation, bytes);
        if (operation.kind == Operation::Kind::kWrite) explain(operation.offset, operation.offset + operation.size);
    }
    return std::none_of(open.begin(), open.end(), [](bool is) { return is; });
}

Judgement against(const Content& base, std::uint64_t seed, std::uint64_t operations, const Expected& expected,
                  std::span<const std::byte> content, const std::string& when) {
    const std::string difference = expected.difference(content);
    if (difference.empty()) return {};
    return {.verdict = is_of_the_past(base, seed, operations, expected, content) ? Verdict::kLost : Verdict::kWrong,
            .what = when + difference};
}

struct Progress {
    Content bytes;
    std::uint64_t operations = 0;   // includes the commits
};
Progress at_commit(const Content& base, std::uint64_t seed, std::uint64_t commits) {
    Progress progress{base};
    Workload workload(seed);
    for (std::uint64_t done = 0; done < commits; ++progress.operations) {
        const Operation operation = workload.next();
        apply_operation(operation, progress.bytes);
        done += operation.kind == Operation::Kind::kCommit;
    }
    return progress;
}

Judgement judge_from(const Content& base, std::uint64_t seed, const Told& told, bool uncommitted,
                     std::span<const std::byte> content) {
    const Progress good = at_commit(base, seed, told.good_commits);
    const std::uint64_t last = told.commits + (told.failed_operation ? 0 : 1);   // no commit follows a failed operation
    Oracle oracle(base, seed);
    for (std::uint64_t commit = told.good_commits; commit <= last; ++commit) {
        const Content& bytes = oracle.after(commit);
        if (std::equal(content.begin(), content.end(), bytes.begin(), bytes.end())) return {.commit = commit};
    }
    const std::string when = fmt::format(
        "after {} commits ({} is the last good one), the file has none of the possible states: ", told.commits,
        told.good_commits);
    Expected expected(good.bytes);
    Workload workload(seed);
    std::uint64_t operations = 0;
    for (std::uint64_t commits = 0; commits <= told.commits; ++operations) {
        const Operation operation = workload.next();
        commits += operation.kind == Operation::Kind::kCommit;
        if (uncommitted && operations >= good.operations) expected.loosen(operation);
    }
    Judgement judgement = against(base, seed, operations, expected, content, when);
    judgement.commit = told.good_commits;
    return judgement;
}

}   // namespace

Judgement judge(std::uint64_t seed, std::uint64_t reported, std::span<const std::byte> content) {
    return judge_killed(seed, {.commits = reported, .good_commits = reported}, false, content);
}

Judgement judge_killed(std::uint64_t seed, const Told& told, bool uncommitted, std::span<const std::byte> content) {
    return judge_from(Workload::initial(seed), seed, told, uncommitted, content);
}

Judgement judge_session(const Content& base, std::uint64_t seed, const Told& told, std::span<const std::byte> content) {
    return judge_from(base, seed, told, true, content);
}

Judgement judge_closed(std::uint64_t seed, std::uint64_t operations, const Told& told,
                       std::span<const std::byte> content) {
    Content bytes = Workload::initial(seed);
    Workload workload(seed);
    const std::uint64_t done = std::min(operations, told.failed_operation.value_or(operations));
    for (std::uint64_t i = 0; i < done; ++i) apply_operation(workload.next(), bytes);
    Expected expected(bytes);
    if (told.failed_operation) expected.loosen(workload.next());
    return against(Workload::initial(seed), seed, done, expected, content,
                   fmt::format("closed {}after {} operations: ", told.closed_well ? "" : "without success ", done));
}

ServerFigures& ServerFigures::operator+=(const ServerFigures& more) noexcept {
    sessions += more.sessions;
    closed += more.closed;
    refused += more.refused;
    failed += more.failed;
    direct += more.direct;
    clients_killed += more.clients_killed;
    servers_killed += more.servers_killed;
    cuts += more.cuts;
    stops += more.stops;
    readers += more.readers;
    readers_refused += more.readers_refused;
    committed_bytes += more.committed_bytes;
    return *this;
}

void Campaign::count(const Judgement& judgement) {
    ++points;
    recovered += judgement.verdict == Verdict::kRecovered;
    lost += judgement.verdict == Verdict::kLost;
    wrong += judgement.verdict == Verdict::kWrong;
    hung += judgement.verdict == Verdict::kHung;
    unreported += judgement.verdict == Verdict::kUnreported;
    if (!judgement.what.empty() && failures.size() < kFailuresTold) failures.push_back(judgement.what);
}

bool all_well(std::span<const Campaign> campaigns) noexcept {
    return std::all_of(campaigns.begin(), campaigns.end(),
                       [](const Campaign& campaign) { return campaign.all_well(); }) &&
           std::any_of(campaigns.begin(), campaigns.end(),
                       [](const Campaign& campaign) { return campaign.skipped.empty(); });
}

}   // namespace forebay::torture
