// A file that the members of a team have open together, each through its own staged file.
//
// How it is staged is a `Sharing` (file/sharing.h): all members on one node, on several nodes, by a staging server, or
// not at all. Writes and reads are independent; open, truncate, commit, step_aside, settle and close are collective
// over the team. If one member fails in a collective call, all fail with the same code.
//
// Ownership: one object per file, team and process, shared by the handles that opened it together.
// Thread-safety: independent calls from any thread, collective ones from one thread at a time.
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
        std::string warning;   // to be shown once
    };
    // Collective. All members open the same file for writing; `opened` is the outcome of that here. Errors on any
    // member are errors on all. `claim` (Engine::claim) is given up when the file is closed, before any member returns
    // from that; after an error it stays with the caller.
    static Result<Opened> open(std::shared_ptr<stage::Engine> engine, Result<stage::OpenTarget> opened,
                               std::shared_ptr<Team> team);
    ~SharedFile() override;

    void hold(std::shared_ptr<io::Claim> claim) noexcept { state_.claim = std::move(claim); }
    [[nodiscard]] Team& team() const noexcept { return *state_.team; }
    // Members on other nodes stage parts of the file.
    [[nodiscard]] bool on_several_nodes() const noexcept { return sharing_->on_several_nodes(); }
    // A crash leaves the last commit, once recovery has run on every node (nodes=consistent).
    [[nodiscard]] bool keeps_journal() const noexcept { return sharing_->journal() != nullptr; }

    // ---- independent ----------------------------------------------------------------------------

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
    Status read(std::span<const ReadPart> parts) override { return sharing_->read(parts); }
    // On return the bytes that this member's node has staged are in the file. Bytes that members of other nodes write
    // are there after a commit, as MPI has it. Counted.
    Status expose_offsets() override { return sharing_->expose_offsets(); }
    // Returns once what any member of any node had staged when the call began is in the target, as far as this member
    // can know of it: its own, and others' that a synchronisation lies between. No other member needs to be in such a
    // call.
    Status await_drained() override { return sharing_->await_drained(); }
    // At the end of a process that never closed the file; without MPI. The drainer waits for a while until the others
    // have come to their ends, and drains; all give their logs back. The log keeps what cannot be drained, and
    // Lifecycle::finish_unclosed tells why.
    void finish_unclosed() noexcept;

    // ---- collective -----------------------------------------------------------------------------

    // A barrier; with a failure on any member, that failure on all.
    Status meet() { return sharing_->meet(); }
    Status agree(const Status& mine) { return sharing_->agree(mine); }
    // `agree` after a write of which all members have made a part. Their parts belong together.
    Status agree_on_write(const Status& mine);
    // Whether it is so for any member.
    Result<bool> any(bool mine);
    // After it every member sees the new size.
    Status truncate(std::uint64_t size) override { return sharing_->truncate(size); }
    // One consistent state (H5Fflush): it is in the log, where it survives the death of the processes, and on return in
    // the file, where others find it. MPI's rule for a file's sync is the reason: processes with another communicator
    // may open the file now. A write that failed on one rank (`defer_error`) fails it on all, and nothing is committed:
    // a crash leaves the last commit that was whole.
    Status commit() override { return sharing_->commit(); }
    // With several nodes everything staged is drained: space may be freed and used otherwise. On one node nothing needs
    // to be done.
    Status settle() { return sharing_->settle(); }
    Status step_aside(ledger::AsideReason reason) override;
    // Once, by the last handle. Drains and sets the size. On failure the logs stay, unless it is only that of a write
    // of raw data that failed on one rank (`defer_error`), or there are several nodes. On one node the close may return
    // once everything is committed; each member's engine does the rest, without MPI and without this object. The death
    // of the processes loses nothing of what was committed.
    stage::Engine::Detached close(stage::AfterClose afterwards) override {
        return sharing_->close(std::move(afterwards));
    }
    Status close() { return close({}).outcome; }

  private:
    SharedFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<Team> team);
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
