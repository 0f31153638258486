#pragma once

#include <span>

#include "recover/inventory.h"
#include "recover/recovery.h"
#include "recover/report.h"

namespace forebay::recover {

// Leaves in `report.living` only directories with one of `files` open. Reports such a file as in use if nothing else
// was reported of it, and as refused a directory that does not tell. A file without an identity counts by its path.
void tell_of_users(const Inventory& inventory, std::span<const Wanted> files, Report& report);

// True if a dead process's logs or undo journals are of one of `files`.
[[nodiscard]] bool has_left(const FoundDirectory& directory, std::span<const Wanted> files);

// True if a living process has it open for writing, by its ledger or, if that lacks files, its log. Error: unknown.
[[nodiscard]] Result<bool> has_open(const FoundDirectory& directory, const Wanted& file);

}   // namespace forebay::recover
