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

[[nodiscard]] FileReport introduce(const Session& session);

// Returns true if the logs may go: the drainer moved the frontier beyond all records, its log never had a segment, or a
// durable group wrote nothing. The mere lack of the drainer's log tells nothing of the others' bytes. Undo journals
// decide for a file of several nodes. False if `lacks_proof`.
[[nodiscard]] bool is_complete(const Session& session) noexcept;

// Returns true if the board or the lack of an undo journal says that nothing is to be done, but the logs have records
// and the machine was restarted. A loss of power may leave boards and journals that are older than the log.
[[nodiscard]] bool lacks_proof(const Session& session) noexcept;

// CLOCK_REALTIME when one of the processes was certainly alive; 0: unknown. The file system may date its writes later.
// For a durable log of an earlier boot: when it may have been alive.
[[nodiscard]] std::uint64_t last_sign_of_life(const Session& session, const area::BootId& boot_id,
                                              std::uint64_t booted_ns) noexcept;

// True if a rank noted that all had closed the file: there is nothing to undo.
[[nodiscard]] bool is_closed(const TeamSession& team);

[[nodiscard]] FileReport refused(FileReport report, Reason reason, Status status);

// The reason why the target, or a file beside it, cannot be opened or written.
[[nodiscard]] Reason reason_of(const Status& status) noexcept;
// The reason of a failed write, during which other programs may change the target (witnessed_target.h).
[[nodiscard]] Reason reason_of_failed_write(const Status& status) noexcept;

// Notes in the ledger that recovery writes now, so that no later recovery takes its writes for another program's. With
// `durable` a loss of power leaves the note.
[[nodiscard]] Status note_life(FoundDirectory& directory, bool durable);

// True if unreadable records may belong to the last commit, or hide one. Later records are a torn tail, and dropped.
[[nodiscard]] bool hides_a_commit(const log::ScannedLog& log, std::uint64_t commit_sequence) noexcept;

// No other process then lists the areas for recovery or removes directories. kUnavailable after `patience`. Held for
// short; while a target is touched only on a full staging device (claim.h).
[[nodiscard]] Result<std::vector<std::unique_ptr<io::Lock>>> lock_all(std::span<io::Directory* const> areas,
                                                                      io::Directory::Patience patience);

}   // namespace forebay::recover
