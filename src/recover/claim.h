// Claims files for a recovery or a discard, and lists the staging areas meanwhile. Blocks on file I/O and locks.
// INVARIANT: two processes work on one file only one after the other. Each locks the file and then lists the areas,
// which takes their locks. On a full device a file lock may not be possible, and recovery makes room there. Then the
// claim keeps the locks of the areas until it ends, so no other process can list them. A process that listed an area
// earlier holds the file's lock in it. So the claim tries that lock again in each area that has room. The claim waits
// for no file lock while it holds those of the areas.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "recover/file_lock.h"
#include "recover/inventory.h"
#include "recover/report.h"

namespace forebay::recover {

struct Claim {
    std::vector<std::unique_ptr<io::Lock>> area_locks;   // of full areas; end with this
    std::vector<FileLock> locks;                         // end with this
    std::map<io::Identity, Status> busy;                 // files that another process works on, with the reason
    Inventory inventory;                                 // listed under all locks, so these files' logs do not change
};

// Locks the files `named`, and those that `concerned` finds in an inventory; with `dry_run` none. `patience` applies to
// each file and to each listing of the areas. Errors: those of take_inventory and lock_all.
[[nodiscard]] Result<Claim> claim(std::span<io::Directory* const> areas, const std::set<io::Identity>& named,
                                  const std::function<std::set<io::Identity>(const Inventory&)>& concerned,
                                  io::Directory::Patience patience, bool dry_run, const IsAlive& is_alive,
                                  const area::BootId& boot_id);

// Reports the directories in the areas now. Removes empty ones of the dead, unless another recovery holds the areas.
// Returns the directories with logs of processes that died after the claim, which did not read these logs. Leaves out
// those that are not `wanted`.
std::vector<DirectoryReport> tidy_up(std::span<io::Directory* const> areas, Claim& claim,
                                     io::Directory::Patience patience, bool dry_run, const IsAlive& is_alive,
                                     const area::BootId& boot_id,
                                     const std::function<bool(const FoundDirectory&)>& wanted, Report& report);

}   // namespace forebay::recover
