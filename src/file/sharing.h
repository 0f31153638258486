// How the members of a team share a file: the part of a SharedFile (file/shared_file.h) that differs by how it is
// staged.
//
//   Unstaged      no member has a log: each writes the target
//   Forwarded     a staging server stages it: each member forwards its writes, and rank 0 acts for all
//   OnOneNode       the members stage together, and the lowest rank drains (file/on_one_node.h)
//   OnSeveralNodes  each node stages its own raw data (file/on_several_nodes.h)
//
// A file that steps aside becomes Unstaged. Thread-safety, blocking and what is collective: as the calls of SharedFile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "file/program_file.h"
#include "file/team.h"
#include "undo/undo_journal.h"

namespace forebay::file {

// What a member knows of the file, however it is shared.
struct SharedState {
    std::shared_ptr<stage::Engine> engine;
    std::shared_ptr<Team> team;
    std::shared_ptr<stage::StagedFile> file;
    std::unique_ptr<io::Claim> claim;
    bool attached = false;   // to the engine
    Status untold;           // the first failure since the last commit that only this rank knows of
    Status incomplete;       // the first failed write of metadata: the file lacks them, whatever is written later

    // For all ranks, at a commit or the close.
    [[nodiscard]] Status take_deferred_error() noexcept;
    void end_claim() noexcept;   // as below
};

// Other programs may write the file, unless writes of what its log still holds may be in flight.
void end_claim(stage::Engine& engine, const stage::StagedFile& file, std::shared_ptr<io::Claim> claim) noexcept;

class Sharing {
  public:
    using Part = ProgramFile::Part;
    using ReadPart = ProgramFile::ReadPart;
    using Detached = stage::Engine::Detached;
    using AfterClose = stage::AfterClose;

    explicit Sharing(SharedState& state) noexcept : state_(state) {}
    virtual ~Sharing() = default;
    Sharing(const Sharing&) = delete;
    Sharing& operator=(const Sharing&) = delete;

    // ---- independent ----------------------------------------------------------------------------

    virtual Status write(std::span<const Part> parts, stage::ByteClass byte_class, bool together) = 0;
    virtual Status read(std::span<const ReadPart> parts) { return state_.file->read(parts); }
    virtual Status expose_offsets() { return state_.file->expose_offsets(); }
    virtual Status await_drained() { return state_.file->drain_present(); }
    [[nodiscard]] virtual bool on_several_nodes() const noexcept { return false; }
    // The members staged the file together, and do so no more: it is Unstaged from now on.
    [[nodiscard]] virtual bool has_ended() const noexcept { return false; }
    [[nodiscard]] virtual undo::UndoJournal* journal() const noexcept { return nullptr; }
    virtual void finish_unclosed() noexcept { state_.claim.reset(); }   // nothing is staged

    // ---- collective -----------------------------------------------------------------------------

    Status meet();
    Status agree(const Status& mine);
    virtual void collective_write_done() noexcept {}
    virtual Status truncate(std::uint64_t size) = 0;
    virtual Status commit() = 0;
    virtual Status settle() { return Status::ok(); }
    virtual Status step_aside(ledger::AsideReason reason) = 0;
    Detached close(AfterClose afterwards);

  protected:
    // Whether the others are told a failure that only one rank knows of yet.
    enum class Untold : bool { kKeep, kTell };

    // The steps of the close, in this order.
    // What has to be committed while all members can still fail together.
    virtual Status commit_before_close() { return Status::ok(); }
    // Why this member's close waits for its drain; nothing: as far as it is concerned it need not.
    virtual std::optional<stage::WaitedClose> why_close_waits() { return stage::WaitedClose::kShared; }
    // The log can bring back the last commit, which is better than a file that lacks metadata.
    [[nodiscard]] virtual bool keeps_last_commit() const noexcept { return false; }
    // A member is gone: the others do not wait for it.
    virtual void abandon(const Status& why) noexcept;
    // Commits, so that the drain may follow the close. Returns false if the file is closed at once; `waits` says why.
    virtual bool defer(std::optional<stage::WaitedClose>& /*waits*/) { return false; }
    virtual void finish_later(AfterClose /*afterwards*/) noexcept {}
    // Ends this member's part. `whole`: the failure that keeps the last commit from being replaced. Returns the outcome
    // on all members, with `committed`, which was the outcome of the first step.
    virtual Status end_part(const Status& whole, Status committed) = 0;
    // All parts have ended well.
    virtual Status give_back(const Status& /*outcome*/) { return Status::ok(); }
    virtual void remove_common_files() noexcept {}

    SharedState& state_;

  private:
    Status close_now(const Status& whole, Status committed);
};

// Without a log: what a member has written is in the target, or at the staging server, at once.
class WithoutLog : public Sharing {
  public:
    using Sharing::Sharing;
    Status write(std::span<const Part> parts, stage::ByteClass byte_class, bool together) override;
    Status commit() override;
    Status step_aside(ledger::AsideReason reason) override;

  protected:
    // Whether this member makes the calls that change the whole file.
    [[nodiscard]] virtual bool acts() const noexcept = 0;
    Status end_part(const Status& whole, Status committed) override;
    template <class Act>
    Status by_those_who_act(Act&& act, Untold untold = Untold::kKeep);
};

class Unstaged final : public WithoutLog {
  public:
    using WithoutLog::WithoutLog;
    Status truncate(std::uint64_t size) override;

  private:
    [[nodiscard]] bool acts() const noexcept override { return true; }
};

class Forwarded final : public WithoutLog {
  public:
    using WithoutLog::WithoutLog;
    Status truncate(std::uint64_t size) override;

  private:
    [[nodiscard]] bool acts() const noexcept override { return state_.team->rank() == 0; }
    [[nodiscard]] bool keeps_last_commit() const noexcept override { return true; }
};

}   // namespace forebay::file
