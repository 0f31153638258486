// Files that a recovery, or a discard, has to itself, and what lies in the staging areas of them.
#pragma once

#include <functional>
#include <map>
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
    std::vector<FileLock> locks;           // for as long as this lives
    std::map<io::Identity, Status> busy;   // files that somebody else works on, and who
    Inventory inventory;   // taken when all locks were had: of these files nothing in it changes any more
};

// `named`: files known from the beginning. `concerned` tells which others, as an inventory shows. With `dry_run`
// nothing is locked. `patience`: for each file, and each time that an area is listed. Errors: those of take_inventory
// and of lock_all.
[[nodiscard]] Result<Claim> claim(std::span<io::Directory* const> areas, const std::set<io::Identity>& named,
                                  const std::function<std::set<io::Identity>(const Inventory&)>& concerned,
                                  io::Directory::Patience patience, bool dry_run, const IsAlive& is_alive);

// Tells of the directories in the areas, and removes those in which nothing is left. Looks again for that: others may
// have worked on other files of the same processes. If somebody else is at it, what is empty is left to the next one.
void tidy_up(std::span<io::Directory* const> areas, Inventory& seen, io::Directory::Patience patience, bool dry_run,
             const IsAlive& is_alive, Report& report);

}   // namespace forebay::recover
