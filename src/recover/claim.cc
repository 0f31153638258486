#include "recover/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "recover/cleanup.h"
#include "recover/session.h"

namespace forebay::recover {

namespace {

// Without room for a file lock, takes the locks of the areas, and tries once more. Another process may have the file
// lock in another area, or may have taken it in between.
Status lock_file(Claim& claim, std::span<io::Directory* const> areas, const io::Identity& identity,
                 io::Directory::Patience patience) {
    const bool alone = !claim.area_locks.empty();
    auto lock = alone ? FileLock::take(areas, identity, io::Directory::Patience::kTry, FileLock::FullArea::kPassedOver)
                      : FileLock::take(areas, identity, patience);
    if (lock) claim.locks.push_back(std::move(lock).value());
    else if (io::has_holder(lock.status())) claim.busy.emplace(identity, lock.status());
    else if (lock.status().code() != Code::kNoSpace) return lock.status();
    else if (!alone && !areas.empty()) {
        auto area_locks = lock_all(areas, patience);
        if (!area_locks) return area_locks.status();
        claim.area_locks = std::move(area_locks).value();
        return lock_file(claim, areas, identity, patience);
    }
    return Status::ok();
}

// Empty if the claim has the locks already.
Result<std::vector<std::unique_ptr<io::Lock>>> lock_for_listing(const Claim& claim,
                                                                std::span<io::Directory* const> areas,
                                                                io::Directory::Patience patience) {
    if (!claim.area_locks.empty()) return std::vector<std::unique_ptr<io::Lock>>();
    return lock_all(areas, patience);
}

// Returns the dead processes that lived, or were not there, at the claim: the claim did not read their logs.
std::vector<DirectoryReport> died_since(const Inventory& seen, const Inventory& now,
                                        const std::function<bool(const FoundDirectory&)>& wanted) {
    std::vector<DirectoryReport> died;
    for (const auto& one : now.directories) {
        if (one->alive || !one->holds_logs() || !wanted(*one)) continue;
        const std::string path = one->path();
        const bool was_dead = std::any_of(seen.directories.begin(), seen.directories.end(),
                                          [&](const auto& before) { return !before->alive && before->path() == path; });
        if (!was_dead)
            died.push_back(
                {path,
                 {Code::kUnavailable,
                  fmt::format("process {} died meanwhile; run the command again for its files", one->process.pid)}});
    }
    return died;
}

}   // namespace

Result<Claim> claim(std::span<io::Directory* const> areas, const std::set<io::Identity>& named,
                    const std::function<std::set<io::Identity>(const Inventory&)>& concerned,
                    io::Directory::Patience patience, bool dry_run, const IsAlive& is_alive,
                    const area::BootId& boot_id) {
    Claim claim;
    std::set<io::Identity> known, wanted = named;
    for (;;) {
        // Every process locks in ascending order, and never below the lock of an area.
        for (const io::Identity& identity : wanted) {
            if (dry_run || !known.insert(identity).second) continue;
            FOREBAY_TRY(lock_file(claim, areas, identity, patience));
        }
        {
            const auto looking = lock_for_listing(claim, areas, patience);
            if (!looking) return looking.status();
            auto inventory = take_inventory(areas, is_alive, boot_id);
            if (!inventory) return inventory.status();
            claim.inventory = std::move(inventory).value();
        }
        if (dry_run) return claim;
        wanted = concerned(claim.inventory);
        std::erase_if(wanted, [&](const io::Identity& identity) { return known.contains(identity); });
        if (wanted.empty()) return claim;
    }
}

std::vector<DirectoryReport> tidy_up(std::span<io::Directory* const> areas, Claim& claim,
                                     io::Directory::Patience patience, bool dry_run, const IsAlive& is_alive,
                                     const area::BootId& boot_id,
                                     const std::function<bool(const FoundDirectory&)>& wanted, Report& report) {
    Inventory& seen = claim.inventory;
    if (dry_run) {
        tell_of_directories(seen, report);
        remove_directories(seen, true, report);
        return {};
    }
    const auto tidying = lock_for_listing(claim, areas, patience);
    auto now = tidying ? take_inventory(areas, is_alive, boot_id) : Result<Inventory>(tidying.status());
    if (!now) {
        tell_of_directories(seen, report);
        return {};
    }
    tell_of_directories(now.value(), report);
    remove_directories(now.value(), false, report);
    for (io::Directory* const area : areas) remove_dead_file_locks(*area);
    return died_since(seen, now.value(), wanted);
}

}   // namespace forebay::recover
