// Gives back logs that are not needed, and removes directories of dead processes. Blocks on file I/O.
// After a crash at any step the next recovery continues. A log of one process loses its oldest segments first; a replay
// of the rest changes nothing. Logs of several processes are dead once the board says so. The log with the commits goes
// after the others', and the board last.
#pragma once

#include "base/status.h"
#include "recover/inventory.h"
#include "recover/report.h"

namespace forebay::recover {

// Call when the file durably has all that the logs of `session` hold, or when the user gives it up.
[[nodiscard]] Status give_back_logs(const Session& session);

// Call when the undo journals of these ranks are not needed. Their logs go first.
[[nodiscard]] Status give_back_team(const TeamSession& team);

// Removes a dead process's directory with its log unread, also one that others may write to. kPermissionDenied: it is a
// symbolic link or another user's. Removes nothing, and fails with ENOTEMPTY, if the directory has a file of another
// program.
[[nodiscard]] Status remove_unread(FoundDirectory& found);

// Reports the directories of living processes, and those that were refused.
void tell_of_directories(const Inventory& inventory, Report& report);

// Removes, or with `dry_run` only reports, directories of dead processes whose logs are empty. A log whose file is
// unreadable is not empty. A file that forebay did not write stays, and so does its directory. Reports
// failures.
void remove_directories(Inventory& inventory, bool dry_run, Report& report);

}   // namespace forebay::recover
