// Which processes at work have a file open for writing, for whoever asks about that file.
#pragma once

#include <span>

#include "recover/inventory.h"
#include "recover/recovery.h"
#include "recover/report.h"

namespace forebay::recover {

// Names in `report.living` the directories of the processes that have one of `files` open, and no others; a file of
// which nothing else is reported is refused as in use. A directory that does not tell is reported as refused. A file
// without an identity counts by its path.
void tell_of_users(const Inventory& inventory, std::span<const Wanted> files, Report& report);

// Whether a process at work has the file open for writing: by its ledger, or, where that does not have all files, by
// its log. An error: nobody can tell.
[[nodiscard]] Result<bool> has_open(const FoundDirectory& directory, const Wanted& file);

}   // namespace forebay::recover
