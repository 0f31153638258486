// A file that the members of a team have open together. Each member has a staged file of its own.
//
// A `Sharing` (file/sharing.h) says how the file is staged: on one node, on several nodes, by a staging server, or not
// at all. Writes and reads are independent; open, truncate, commit, step_aside, settle and close are collective over
// the team. If one member fails in a collective call, all fail with the same code.
// Ownership: the handles of a process that opened the file with one team share one object. Thread-safety: any thread
// may make independent calls; one thread at a time makes collective calls.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "file/on_one_node.h"
#include "file/on_several_nodes.h"
#include "file/program_file.h"
#include "file/sharing.h"

namespace forebay::file {

class SharedFile final : public ProgramFile {
  public:
    struct Opened {
        std::shared_ptr<SharedFile> file;
        std::string warning;
    };
    // Collective. All members open the same file for writing. `opened` is this member's own open of it. An error on any
    // member is an error on all. The caller passes its claim (Engine::claim) to `hold` after success. The close gives
    // the claim up before any member returns from it.
    static Result<Opened> open(std::shared_ptr<stage::Engine> engine, Result<stage::OpenTarget> opened,
                               std::shared_ptr<Team> team);
    ~SharedFile() override;

    void hold(std::unique_ptr<io::Claim> claim) noexcept { state_.claim = std::move(claim); }
    [[nodiscard]] Team& team() const noexcept { return *state_.team; }
    [[nodiscard]] bool on_several_nodes() const noexcept { return sharing_->on_several_nodes(); }
    // A crash leaves the file at its last commit, once recovery has run on every node (nodes=consistent).
    [[nodiscard]] bool keeps_journal() const noexcept { return sharing_->journal() != nullptr; }

    // ---- independent ----------------------------------------------------------------------------

    Status write(std::span<const Part> parts, stage::ByteClass byte_class) override {
        return write_part(parts, byte_class, false);
    }
    // One member's part of a write that all members make before they meet: a collective write, or the filling of space
    // that others will write. Several nodes write these places, so with several nodes the bytes bypass the log.
    Status write_together(std::span<const Part> parts, stage::ByteClass byte_class) {
        return write_part(parts, byte_class, true);
    }
    // Keeps a failure that only this member knows, such as that of a `write`. The next commit or close reports it on
    // all members, once. Each later commit and the close report a failed write of metadata, which HDF5 does not repeat.
    void defer_error(Status failure, stage::ByteClass of) noexcept;
    Status read(std::span<const ReadPart> parts) override { return sharing_->read(parts); }
    // On return the bytes that this member's node has staged are in the file. Bytes of members on other nodes are in
    // the file after a commit, by MPI's rules. Counted.
    Status expose_offsets() override { return sharing_->expose_offsets(); }
    // Returns after the bytes that were staged when the call began are in the target. These are the bytes that this
    // member can know of: its own, and those of members that it has synchronised with. Not collective.
    Status await_drained() override { return sharing_->await_drained(); }
    // The process ends and never closed the file. Does not call MPI. The drainer waits a limited time for the other
    // members' ends, then drains, and all give their logs back. The log keeps the bytes that cannot be drained, and
    // StagedFile::finish_unclosed reports the reason.
    void finish_unclosed() noexcept;

    // ---- collective -----------------------------------------------------------------------------

    // A barrier. A failure on any member is returned on all.
    Status meet() { return sharing_->meet(); }
    Status agree(const Status& mine) { return sharing_->agree(mine); }
    // Like `agree`, after a write that all members made a part of: their bytes belong together.
    Status agree_on_write(const Status& mine);
    // Returns true on all members if `mine` is true on one.
    Result<bool> any(bool mine);
    // After the call every member sees the new size.
    Status truncate(std::uint64_t size) override { return sharing_->truncate(size); }
    // Makes one consistent state (H5Fflush). The state is in the log, where it survives the death of the processes, and
    // on return it is in the file too. MPI's rule for a file's sync requires that: processes with another communicator
    // may open the file now. A write that failed on one rank (`defer_error`) fails the commit on all ranks; a crash
    // then leaves the last whole commit.
    Status commit() override { return sharing_->commit(); }
    // Drains all staged bytes of several nodes, so that freed space may be used again. Does nothing on one node.
    Status settle() { return sharing_->settle(); }
    Status step_aside(ledger::AsideReason reason) override;
    // The last handle calls this once. Drains and sets the size. On failure the logs stay, but for two cases: only a
    // write of raw data failed on one rank (`defer_error`), or there are several nodes. On one node the close may
    // return after the commit; each member's engine does the rest, without MPI and without this object. The death of
    // the processes loses no committed byte.
    stage::Engine::Detached close(stage::Engine::AfterClose afterwards) override {
        return sharing_->close(std::move(afterwards));
    }
    Status close() { return close({}).outcome; }

  private:
    SharedFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<Team> team);
    Status write_part(std::span<const Part> parts, stage::ByteClass byte_class, bool together);
    Status introduce(Result<stage::OpenTarget>&& opened, Introduction& me, std::string& warning);
    Status choose_sharing(const std::vector<Introduction>& all, const Introduction& me, std::string& warning);
    Status stay_unstaged();

    // All exist from the start: choosing one allocates no memory, which only some members may lack.
    SharedState state_;
    Unstaged unstaged_{state_};
    Forwarded forwarded_{state_};
    OnOneNode one_node_{state_};
    OnSeveralNodes several_nodes_{state_};
    Sharing* sharing_ = &unstaged_;
};

}   // namespace forebay::file
