#include "recover/claim.h"

#include "recover/cleanup.h"
#include "recover/session.h"

namespace forebay::recover {

Result<Claim> claim(std::span<io::Directory* const> areas, const std::set<io::Identity>& named,
                    const std::function<std::set<io::Identity>(const Inventory&)>& concerned,
                    io::Directory::Patience patience, bool dry_run, const IsAlive& is_alive) {
    Claim claim;
    std::set<io::Identity> known, wanted = named;
    for (;;) {
        // Every process locks in ascending order, and never below the lock of an area.
        for (const io::Identity& identity : wanted) {
            if (dry_run || !known.insert(identity).second) continue;
            auto lock = FileLock::take(areas, identity, patience);
            if (lock) claim.locks.push_back(std::move(lock).value());
            else if (lock.status().code() == Code::kUnavailable) claim.busy.emplace(identity, lock.status());
            else return lock.status();
        }
        {
            const auto looking = lock_all(areas, patience);
            if (!looking) return looking.status();
            auto inventory = take_inventory(areas, is_alive);
            if (!inventory) return inventory.status();
            claim.inventory = std::move(inventory).value();
        }
        if (dry_run) return claim;
        wanted = concerned(claim.inventory);
        std::erase_if(wanted, [&](const io::Identity& identity) { return known.contains(identity); });
        if (wanted.empty()) return claim;
    }
}

void tidy_up(std::span<io::Directory* const> areas, Inventory& seen, io::Directory::Patience patience, bool dry_run,
             const IsAlive& is_alive, Report& report) {
    if (dry_run) {
        tell_of_directories(seen, report);
        remove_directories(seen, true, report);
        return;
    }
    const auto tidying = lock_all(areas, patience);
    auto now = tidying ? take_inventory(areas, is_alive) : Result<Inventory>(tidying.status());
    if (!now) {
        tell_of_directories(seen, report);
        return;
    }
    tell_of_directories(now.value(), report);
    remove_directories(now.value(), false, report);
    for (io::Directory* const area : areas) remove_dead_file_locks(*area);
}

}   // namespace forebay::recover
