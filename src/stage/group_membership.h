// This process's membership in the group of processes that write one file together on a node (group/group.h). One
// process drains: it follows the logs of all before it plans, reads, commits or finishes. The others, followers
// (index/followed_bytes.h), keep no index of their writes, follow all logs to read, and leave `commit`, `drain` and
// `finish`. A follower writes to the target itself in three cases only. It does so beyond the committed end, where
// nothing has ever been staged (`group::SharedTarget::first_unstaged`). With several nodes, it writes bytes that other
// nodes have to find at once. It writes everything once the drainer has failed with on_error=through. The drainer may
// not know of such a write when it makes the target longer, so it never cuts the target then. Invariant: each process
// asks the target about its own writes before its close succeeds, as no log has their bytes (drain/target_calls.h).
// `StagedFile` owns this, which refers to the state and to the log of the file. Every call takes the locks that it
// needs. The group's doorbell thread calls `poll` only; all other calls come from the program's thread. `poll` and
// `collective_write_done` do not wait for the target; all others may.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/status.h"
#include "group/group.h"
#include "io/file.h"
#include "ledger/ledger.h"
#include "stage/commit_policy.h"
#include "stage/file_state.h"
#include "stage/staging_log.h"

namespace forebay::stage {

class GroupMembership {
  public:
    GroupMembership(FileState& file, StagingLog& log) noexcept : file_(file), log_(log) {}

    // Takes the log's first segment for `join`; the file gives it back at a close or step aside. kNoSpace: none.
    Status take_first_segment();
    // Shares the file, of which nothing has been written yet. With `several_nodes`, no byte waits for a commit, and
    // metadata goes to the target at once, where other nodes find it.
    Status join(std::shared_ptr<group::Group> group, bool several_nodes);
    [[nodiscard]] bool shared() const;
    Status sync_own_log() { return file_.commits->sync_own_log(); }
    // EIO if the staging device has lost bytes of this process's log (FileLog::ever_lost), which others drain and read.
    [[nodiscard]] Status own_log_lost() const;
    Status begin_statements() { return file_.commits->begin_statements(); }
    // Until the file is closed, all changes reach the target through the file that `wrap` returns.
    void wrap_target(const std::function<std::shared_ptr<io::File>(std::shared_ptr<io::File>)>& wrap);

    // ---- the drainer's --------------------------------------------------------------------------

    // Takes in the records that others appended, and wakes the drain if that pays. With `room_wanted` a participant
    // waits for room, and everything has to go, held bytes at last. Returns the time until the next call, if the drain
    // pauses, or memory was short: it goes on by that call.
    std::optional<std::chrono::milliseconds> poll(bool room_wanted);
    // Every process has made its part of a collective write.
    void collective_write_done();
    // Before the members step aside: everything that may fail, so that `bypass_log` leaves no member behind. Drains,
    // sets the target's size, and syncs it for a durable log. The file stays staged, with its log. Does nothing in
    // other processes.
    Status prepare_bypass();

    // ---- every member's -------------------------------------------------------------------------

    // Returns once everything that this node had staged at the call is in the target, committed or not.
    Status drain_present();
    // With several nodes, when nothing is staged anywhere: one process sets the target's size, then all note it.
    Status resize_beside(std::uint64_t size);
    Status note_size(std::uint64_t size);
    // All drainers are prepared: gives the log back, and writes go to the target from now on. If making this durable
    // fails, the call returns the error, and the file bypasses the log nevertheless.
    Status bypass_log(ledger::AsideReason reason);
    // Counts bytes that reached the target before their commit.
    void count_given_up(std::uint64_t bytes) noexcept;
    // The program has waited for the drainer since `begin_ns` (monotonic), in a call that is none of this file's.
    void waited_since(std::uint64_t begin_ns) noexcept;

    // Asks a target that reports late whether it has lost bytes that this process wrote itself. Its servers have the
    // bytes then, and other nodes find them. Call this before the members agree on the outcome of a close, or of a
    // flush on several nodes. Waits for the target, with patience.
    Status confirm_own_writes();

    // ---- a follower's end -----------------------------------------------------------------------

    // The drainer has finished. Confirms as above. Gives the log back, or after a failure of the drainer leaves it.
    // Returns `outcome`, or its own error.
    Status finish_followed(const Status& outcome);

  private:
    [[nodiscard]] bool find_work(bool room_wanted) REQUIRES(file_.mutex());
    [[nodiscard]] std::optional<std::chrono::milliseconds> next_poll() REQUIRES(file_.mutex());

    FileState& file_;
    StagingLog& log_;
};

}   // namespace forebay::stage
