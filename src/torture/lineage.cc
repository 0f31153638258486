#include "torture/lineage.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"

namespace forebay::torture {

namespace {

using Verdict = Judgement::Verdict;

bool has(const std::vector<std::uint64_t>& all, std::uint64_t one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

}   // namespace

Judgement Lineage::neither(std::uint64_t checksum, std::uint64_t size, const std::string& who) const {
    const bool older = has(past_, checksum);
    return {.verdict = older ? Verdict::kLost : Verdict::kWrong,
            .what = fmt::format("{}: {}", who,
                                older ? "an older state than the last successful commit"
                                      : fmt::format("{} bytes, none of the possible states", size))};
}

Judgement Lineage::end(const Session& session, const Told& told, bool uncommitted) {
    before_.clear();
    states_.clear();
    committed_bytes_ = 0;
    last_ = session;
    last_told_ = told;
    if (session.empties) may_be_.emplace_back();
    for (const Content& content : may_be_) before_.push_back(forebay::checksum(content));
    if (told.seen.empty()) return {};   // the client never had the file open
    const auto found = std::find(before_.begin(), before_.end(), told.seen.front());
    if (found == before_.end())
        return neither(told.seen.front(), 0, fmt::format("the client of seed {} found", session.seed));
    past_.insert(past_.end(), before_.begin(), before_.end());
    base_ = std::move(may_be_[static_cast<std::size_t>(found - before_.begin())]);
    may_be_.clear();
    loose_ = uncommitted && !told.closed_well;

    Workload workload(session.seed);
    Content bytes = base_;
    std::uint64_t commits = 0, written = 0;
    const auto reached = [&](bool is_end) {
        states_.push_back(forebay::checksum(bytes));
        const bool good = is_end ? told.closed_well : commits <= told.good_commits;
        if (good) committed_bytes_ = written;
        const bool possible = told.closed_well ? is_end
                              : is_end         ? !told.failed_operation && commits <= told.commits
                                               : commits >= told.good_commits && commits <= told.commits + 1;
        if (possible) may_be_.push_back(bytes);
        else past_.push_back(states_.back());
    };
    reached(false);
    for (std::uint64_t done = 0; done < session.operations; ++done) {
        const Operation operation = workload.next();
        apply_operation(operation, bytes);
        if (operation.kind == Operation::Kind::kWrite) written += operation.size;
        if (operation.kind != Operation::Kind::kCommit) continue;
        ++commits;
        reached(false);
    }
    reached(true);
    return {};
}

Judgement Lineage::read(std::uint64_t checksum, std::uint64_t good_commits) const {
    if (loose_) return {};
    const auto from = states_.begin() +
                      static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(good_commits, states_.size()));
    if (std::find(from, states_.end(), checksum) != states_.end()) return {};
    if (good_commits == 0 && has(before_, checksum)) return {};
    const bool older = has(past_, checksum) || has(states_, checksum);
    return {.verdict = older ? Verdict::kLost : Verdict::kWrong,
            .what = fmt::format("a reader beside the client of seed {} found {}", last_.seed,
                                older ? "an older state than the last flush" : "a state that the file never had")};
}

Judgement Lineage::judge(std::span<const std::byte> content) const {
    if (loose_) return judge_session(base_, last_.seed, last_told_, content);
    for (const Content& each : may_be_)
        if (std::equal(content.begin(), content.end(), each.begin(), each.end())) return {};
    const std::uint64_t checksum = forebay::checksum(content);
    Judgement judgement = neither(checksum, content.size(), "the file holds");
    const Content& newest = may_be_.back();
    const auto [differs, _] = std::mismatch(content.begin(), content.end(), newest.begin(), newest.end());
    judgement.what += fmt::format("; the newest has {} bytes, the first difference is at {}", newest.size(),
                                  differs - content.begin());
    return judgement;
}

}   // namespace forebay::torture
