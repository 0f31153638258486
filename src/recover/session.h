// What recovering, discarding and verifying have in common: sessions, and the lock of the staging area.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "recover/inventory.h"
#include "recover/report.h"
#include "recover/untouched.h"

namespace forebay::recover {

// What is known of a session before anything of its target was looked at.
[[nodiscard]] FileReport introduce(const Session& session);

// The file has everything, or nothing of it can be told: the logs may go. The process that drains gives its log back
// when the file has everything; then the others' mean nothing. Of a file of several nodes with undo journals, these
// decide as long as they are there.
[[nodiscard]] bool is_complete(const Session& session) noexcept;

// A rank has said that all had closed the file: there is nothing to be undone.
[[nodiscard]] bool is_closed(const TeamSession& team);

// The same report, of a file that is left as it is.
[[nodiscard]] FileReport refused(FileReport report, Reason reason, Status status);

// Why the target, or what is beside it, cannot be opened or written.
[[nodiscard]] Reason reason_of(const Status& status) noexcept;
// Of a write to the target: others may have changed it meanwhile (witnessed_target.h).
[[nodiscard]] Reason reason_of_failed_write(const Status& status) noexcept;

// What recovery itself writes to the target is no change by somebody else, also if it is killed then.
[[nodiscard]] Status note_life(FoundDirectory& directory);

// Whether something that cannot be read may belong to the last commit of the file, or be a commit where none is known.
// What was appended after the last known commit is a tail, and is dropped.
[[nodiscard]] bool hides_a_commit(const log::ScannedLog& log, std::uint64_t commit_sequence) noexcept;

// Nobody else lists, or removes what is empty, in any of the areas until the locks are destroyed. kUnavailable:
// somebody does, and `patience` is over. Held for short: never while a target is touched.
[[nodiscard]] Result<std::vector<std::unique_ptr<io::Lock>>> lock_all(std::span<io::Directory* const> areas,
                                                                      io::Directory::Patience patience);

}   // namespace forebay::recover
