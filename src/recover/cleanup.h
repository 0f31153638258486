// Giving back logs that are not needed any more, and removing what dead processes have left.
//
// Each step leaves a state from which the next recovery goes on: the log of one process loses its oldest segments
// first, and what is left of it, replayed again, changes nothing. The logs of several processes are declared dead on
// their board first; those of the others go before that of the process that commits, and the board goes last.
#pragma once

#include "base/status.h"
#include "recover/inventory.h"
#include "recover/report.h"

namespace forebay::recover {

// The file has, durably, what the logs of `session` would give it; or nobody wants that any more.
[[nodiscard]] Status give_back_logs(const Session& session);

// Nobody needs the undo journals of these ranks any more, nor their logs. The logs go first.
[[nodiscard]] Status give_back_team(const TeamSession& team);

// Removes a dead process's directory whatever its log is; what in it is not forebay's keeps it.
[[nodiscard]] Status remove_unread(FoundDirectory& found);

// Notes in the report which directories are at work, and which were not looked into.
void tell_of_directories(const Inventory& inventory, Report& report);

// Removes the directories of dead processes in whose logs nothing is left, and notes them. With `dry_run` notes those
// that have no logs now. What cannot be removed is noted, and kept.
void remove_directories(Inventory& inventory, bool dry_run, Report& report);

}   // namespace forebay::recover
