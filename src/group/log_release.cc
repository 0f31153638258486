#include "group/log_release.h"

#include <algorithm>
#include <cstddef>

namespace forebay::group {

void LogRelease::at_rest() noexcept {
    BoardHeader& header = participants_.header();
    if (header.bell.wants_room.load() > 0) io::raise_and_wake(header.bell.doorbell);
}

// The bell counts all participants that wait. The rows show those that wait for room; other values are ends.
bool LogRelease::frontier_wanted() const noexcept {
    std::uint64_t for_room = 0;
    for (std::size_t i = 0; i < logs_.size(); ++i) for_room += participants_.row(i).wants_room.load() == 1 ? 1 : 0;
    return participants_.header().bell.wants_room.load() > for_room;
}

void LogRelease::all_drained() noexcept {
    BoardHeader& header = participants_.header();
    if (participants_.setup().several_nodes) header.exposed.clean.store(header.arrivals.followed_tickets.load());
}

void LogRelease::complete() noexcept { (void)store_frontier({log::Frontier::kNothing, log::Frontier::kNothing}); }

// Returns nullopt while a truncation blocks the frontier.
std::optional<log::Frontier> LogRelease::next_frontier(const Account& account) const noexcept {
    log::Frontier frontier{order_.complete_below(), order_.complete_below()};
    frontier.lower_to(account.needed);
    for (const auto& log : logs_) frontier.lower_to(log->needed());
    // A process that finds a truncation's record treats every range without a later record as cut off.
    if (account.cut != 0 && account.cut >= frontier.lower()) return std::nullopt;
    return frontier;
}

// Accounts are coarse, so the next frontier may be lower; a dead record stays dead. Returns true if the frontier moved.
bool LogRelease::store_frontier(const log::Frontier& next) noexcept {
    BoardHeader& header = participants_.header();
    const log::Frontier before = participants_.frontier();
    header.dead_raw.store(std::max(next.raw, before.raw));
    header.dead_metadata.store(std::max(next.metadata, before.metadata));
    return next.raw > before.raw || next.metadata > before.metadata;
}

std::optional<log::Frontier> LogRelease::recycle(const Account& account) noexcept {
    BoardHeader& header = participants_.header();
    const std::optional<log::Frontier> next = next_frontier(account);
    if (!next) return std::nullopt;
    const bool limited = next->lower() == order_.complete_below();
    bool any = store_frontier(*next), waits = account.idle;   // a participant may wait for either
    if (participants_.board().lost()) return std::nullopt;    // recovery would not see the frontier
    for (const auto& log : logs_) {
        any = log->release_below(log->needed_from(participants_.frontier(), account.drained)) || any;
        waits = waits || log->waits_for_frontier();
    }
    if (waits && limited) order_.await_complete();
    if (any && header.bell.wants_room.load() > 0) io::raise_and_wake(header.progress);
    return participants_.frontier();
}

// ---- durability=node ---------------------------------------------------------------------------------

Statement LogRelease::survey() const {
    Statement statement;
    statement.frontier = participants_.frontier();
    for (const auto& log : logs_) statement.logs.push_back({log->begin(), log->end()});
    return statement;
}

bool LogRelease::plan_release(const Account& account, Statement& plan) {
    const std::optional<log::Frontier> next = next_frontier(account);
    if (!next) return false;
    plan.frontier = {std::max(next->raw, plan.frontier.raw), std::max(next->metadata, plan.frontier.metadata)};
    bool waits = account.idle;
    for (std::size_t i = 0; i < logs_.size(); ++i) {
        if (!logs_[i]->readable()) continue;
        const std::uint64_t needed_from = logs_[i]->needed_from(plan.frontier, account.drained);
        waits = waits || (needed_from == logs_[i]->begin() && logs_[i]->waits_for_frontier());
        plan.logs[i].needed_from = needed_from;
    }
    if (waits && next->lower() == order_.complete_below()) order_.await_complete();
    return true;
}

Status LogRelease::state(const Statement& statement) {
    for (std::size_t i = 0; i < logs_.size(); ++i)
        if (logs_[i]->readable() && participants_.row(i).synced.load(std::memory_order_acquire) < statement.logs[i].end)
            FOREBAY_TRY(logs_[i]->sync());
    Statement numbered = statement;
    numbered.number = ++statements_;
    for (std::size_t i = 0; i < logs_.size(); ++i)
        if (Statement::Log& one = numbered.logs[i]; one.end <= one.needed_from * logs_[i]->segment_bytes()) one.end = 0;
    return participants_.board().state(numbered);
}

void LogRelease::release(const Statement& stated) noexcept {
    BoardHeader& header = participants_.header();
    bool any = store_frontier(stated.frontier);
    if (participants_.board().lost()) return;
    for (std::size_t i = 0; i < logs_.size(); ++i)
        any = (logs_[i]->readable() && logs_[i]->release_below(stated.logs[i].needed_from)) || any;
    if (any && header.bell.wants_room.load() > 0) io::raise_and_wake(header.progress);
}

Status LogRelease::retire() {
    complete();
    FOREBAY_TRY(participants_.lost());
    return participants_.board().sync();
}

}   // namespace forebay::group
