// Finds the living processes that have a file open for writing.
#pragma once

#include <span>

#include "recover/inventory.h"
#include "recover/recovery.h"
#include "recover/report.h"

namespace forebay::recover {

// Puts into `report.living` only the directories of processes that have one of `files` open, and reports such a file as
// in use if nothing else was reported of it. A directory that does not tell is reported as refused. A file without an
// identity counts by its path.
void tell_of_users(const Inventory& inventory, std::span<const Wanted> files, Report& report);

// Returns true if a living process has the file open for writing, from its ledger or, if that lacks files, its log.
// Error: unknown.
[[nodiscard]] Result<bool> has_open(const FoundDirectory& directory, const Wanted& file);

}   // namespace forebay::recover
