// A file that the members of a team have open together, each through its own staged file. A `Sharing` (file/sharing.h)
// stages it: all members on one node, on several nodes, by a staging server, or not at all. Writes and reads are
// independent; `open` and the calls from `meet` on are collective over the team. If one member fails in a collective
// call, all fail with the same code. One object per file, team and process, shared by the handles that opened it
// together. Thread-safety: independent calls from any thread, collective ones from one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/attempt.h"
#include "file/on_one_node.h"
#include "file/on_several_nodes.h"
#include "file/program_file.h"
#include "file/sharing.h"

namespace forebay::file {

class SharedFile final : public ProgramFile {
  public:
    struct Opened {
        std::shared_ptr<SharedFile> file;
        std::string warning;   // to be shown once
    };
    // Collective. All members open the same file for writing; `opened` is this member's outcome. Errors on any member
    // are errors on all. The close gives up the claim of `hold` (Engine::claim), before any member returns from it.
    static Result<Opened> open(std::shared_ptr<stage::Engine> engine, Result<stage::OpenTarget> opened,
                               std::shared_ptr<Team> team);
    ~SharedFile() override;

    void hold(std::shared_ptr<io::Claim> claim) noexcept { state_.claim = std::move(claim); }
    [[nodiscard]] Team& team() const noexcept { return *state_.team; }
    // Members on other nodes stage parts of the file.
    [[nodiscard]] bool on_several_nodes() const noexcept { return sharing_->on_several_nodes(); }
    // A crash leaves the last commit, once recovery has run on every node (nodes=consistent).
    [[nodiscard]] bool keeps_journal() const noexcept { return sharing_->journal() != nullptr; }

    Status write(std::span<const Part> parts, stage::ByteClass byte_class) override {
        return write_part(parts, byte_class, false);
    }
    // Part of a write that all members make together, before they meet: a collective write, or filling what others will
    // write. Other nodes have written there, or will. So with several nodes the bytes bypass the log.
    Status write_together(std::span<const Part> parts, stage::ByteClass byte_class) {
        return write_part(parts, byte_class, true);
    }
    // A failure that the others do not know of, such as that of a `write`. The next commit or close reports it on all
    // members, once; a failed write of metadata is reported by each of them, as HDF5 does not write them again.
    void defer_error(Status failure, stage::ByteClass of) noexcept;
    void withhold(const Status& why) noexcept override {
        if (!why) defer_error(copy_of(why, "a write failed"), stage::ByteClass::kMetadata);
    }
    Status read(std::span<const ReadPart> parts) override { return sharing_->read(parts); }
    // On return this node's staged bytes are in the file; those of other nodes are after a commit, as in MPI. Counted.
    Status expose_offsets() override { return sharing_->expose_offsets(); }
    // Waits for the drain of bytes that any node had staged at the call and that this member can know of. These are its
    // own, and others' behind a synchronisation. No other member needs to be in such a call.
    Status await_drained() override { return sharing_->await_drained(); }
    // At the end of a process that never closed the file; without MPI. The drainer waits for a while for the others'
    // ends, and drains; all give their logs back. Undrained bytes stay in the log (Lifecycle::finish_unclosed).
    void finish_unclosed() noexcept;

    // A barrier; with a failure on any member, that failure on all.
    Status meet() { return sharing_->meet(); }
    Status agree(const Status& mine) { return sharing_->agree(mine); }
    // Collective: `write` makes this member's part of one write, with `write_together`. Returns `agree` of the
    // outcomes. Only failures of this write count as known to all; an earlier one stays for the next commit.
    template <class Write>
    Status write_collectively(Write&& write) {
        Status earlier = std::exchange(state_.untold, Status::ok());
        const Status mine = attempt(std::forward<Write>(write));
        return agree_on_write(mine, std::move(earlier));
    }
    // Returns true on all members if `mine` is true on any.
    Result<bool> any(bool mine);
    // After it every member sees the new size.
    Status truncate(std::uint64_t size) override { return sharing_->truncate(size); }
    // One consistent state (H5Fflush): in the log, where it survives the processes' death, and on return in the file.
    // MPI's rule for a file's sync is the reason: processes with another communicator may open the file now. A write
    // that failed on one rank (`defer_error`) fails the commit on all: a crash leaves the last whole one.
    Status commit() override { return sharing_->commit(); }
    // With several nodes, drains everything staged: space may be freed and used otherwise. On one node, does nothing.
    Status settle() { return sharing_->settle(); }
    Status step_aside(ledger::AsideReason reason) override;
    // By the last handle, once. Drains and sets the size. After a failure the logs stay, except after a raw write that
    // failed on one rank (`defer_error`), or with several nodes. On one node the close may return after the commit.
    // Each member's engine does the rest, without MPI and this object; the processes' death loses no commit.
    stage::Engine::Detached close(stage::AfterClose afterwards) override {
        return sharing_->close(std::move(afterwards));
    }
    Status close() { return close({}).outcome; }

  private:
    SharedFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<Team> team);
    Status agree_on_write(const Status& mine, Status earlier);
    Status write_part(std::span<const Part> parts, stage::ByteClass byte_class, bool together);
    Status attach(stage::OpenTarget target, std::string& warning);
    Status introduce(Result<stage::OpenTarget>&& opened, Introduction& me, std::string& warning);
    Status choose_sharing(const std::vector<Introduction>& all, const Introduction& me, std::string& warning);
    Status stay_unstaged();

    // All are there from the beginning: choosing one of them needs no memory, which only some members may lack.
    SharedState state_;
    Unstaged unstaged_{state_};
    Forwarded forwarded_{state_};
    OnOneNode one_node_{state_};
    OnSeveralNodes several_nodes_{state_};
    Sharing* sharing_ = &unstaged_;
};

}   // namespace forebay::file
