// The part of a SharedFile (file/shared_file.h) that differs by how its members stage the file. A file that steps aside
// becomes Unstaged. Thread-safety, blocking and collective calls: like SharedFile.
//   Unstaged        no member has a log: each writes the target
//   Forwarded       each member forwards its writes to a staging server, and rank 0 acts for all
//   OnOneNode       the members stage together, and the lowest rank drains (file/on_one_node.h)
//   OnSeveralNodes  each node stages its own raw data (file/on_several_nodes.h)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "file/program_file.h"
#include "file/team.h"
#include "undo/undo_journal.h"

namespace forebay::file {

// Lets other programs write the file, unless writes of bytes that its log still holds may be in flight.
void end_claim(stage::Engine& engine, const stage::StagedFile& file, std::shared_ptr<io::Claim> claim) noexcept;

// One member's state of the file, common to all kinds of sharing.
struct SharedState {
    std::shared_ptr<stage::Engine> engine;
    std::shared_ptr<Team> team;
    std::shared_ptr<stage::StagedFile> file;
    std::shared_ptr<io::Claim> claim;
    bool attached = false;   // to the engine
    // The first failure since the last commit that only this rank knows. Invariant: it stays until a commit, or the
    // close, has passed it to `agree`. A collective call forgets only a failure of its own that it has passed to
    // `agree`.
    Status untold;
    Status incomplete;   // the first failure after which the file lacks bytes for good: a failed write of
                         // metadata, or a report of bytes that are never written again

    // Returns the failure that a commit or the close has to report on all ranks, and forgets `untold`.
    [[nodiscard]] Status take_deferred_error() noexcept;
    void end_claim() noexcept { file::end_claim(*engine, *file, std::move(claim)); }
};

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

    virtual Status write(std::span<const Part> parts, stage::ByteClass byte_class, bool together) = 0;
    virtual Status read(std::span<const ReadPart> parts) { return state_.file->read(parts); }
    virtual Status expose_offsets() { return state_.file->lifecycle().expose_offsets(); }
    virtual Status await_drained() { return state_.file->membership().drain_present(); }
    [[nodiscard]] virtual bool on_several_nodes() const noexcept { return false; }
    // The members no longer stage the file together: it becomes Unstaged.
    [[nodiscard]] virtual bool has_ended() const noexcept { return false; }
    [[nodiscard]] virtual undo::UndoJournal* journal() const noexcept { return nullptr; }
    virtual void finish_unclosed() noexcept { state_.claim.reset(); }   // no byte is staged

    Status meet();
    Status agree(const Status& mine);
    virtual void collective_write_done() noexcept {}
    virtual Status truncate(std::uint64_t size) = 0;
    virtual Status commit() = 0;
    virtual Status settle() { return Status::ok(); }
    virtual Status step_aside(ledger::AsideReason reason) = 0;
    Detached close(AfterClose afterwards);

  protected:
    // Says if a step also reports a failure that only one rank knows yet.
    enum class Untold : bool { kKeep, kTell };

    // The steps of the close, in this order. The first one commits while all members can still fail together.
    virtual Status commit_before_close() { return Status::ok(); }
    // Returns the reason why this member's close waits for the drain, or nothing if this member need not wait.
    virtual std::optional<stage::WaitedClose> why_close_waits() { return stage::WaitedClose::kShared; }
    // Returns true if recovery can restore the last commit, which is better than a file that lacks metadata.
    [[nodiscard]] virtual bool keeps_last_commit() const noexcept { return false; }
    // A member is gone: gives up without waiting for it.
    virtual void abandon(const Status& why) noexcept;
    // Commits, so that the drain may follow the close, and hands the rest of the close to the engine. Returns false if
    // the file is closed at once instead; `waits` says why. Takes `afterwards` only if it returns true.
    virtual bool defer(std::optional<stage::WaitedClose>& /*waits*/, AfterClose& /*afterwards*/) { return false; }
    // Ends this member's part. `whole` is a failure that keeps the file at its last commit. Returns the outcome on all
    // members. If all parts end well, that is `committed`, the outcome of the first step.
    virtual Status end_part(const Status& whole, Status committed) = 0;
    // Called after all parts have ended. If they ended well, a failure of this call on any member fails the close on
    // all. The common files stay then, as a log that was not given back durably may come back.
    virtual Status give_back(const Status& /*outcome*/) { return Status::ok(); }
    virtual void remove_common_files() noexcept {}

    SharedState& state_;

  private:
    Status close_now(const Status& whole, Status committed);
};

// A file without a log: each write goes to the target, or to the staging server, at once.
class WithoutLog : public Sharing {
  protected:
    using Sharing::Sharing;
    Status end_part(const Status& whole, Status committed) override;
    // Waits for the writes of all members, has the members with `acts` call `act`, and returns on all after them.
    template <class Act>
    Status all_meet(bool acts, Act&& act, Untold untold = Untold::kKeep);
};

class Unstaged final : public WithoutLog {
  public:
    using WithoutLog::WithoutLog;
    Status write(std::span<const Part> parts, stage::ByteClass byte_class, bool together) override;
    Status truncate(std::uint64_t size) override;
    Status commit() override;
    Status step_aside(ledger::AsideReason reason) override;
};

class Forwarded final : public WithoutLog {
  public:
    using WithoutLog::WithoutLog;
    // Call this before any other function.
    void adopt(std::shared_ptr<stage::ForwardedWriting> writing) noexcept { writing_ = std::move(writing); }

    Status write(std::span<const Part> parts, stage::ByteClass byte_class, bool together) override;
    Status expose_offsets() override { return writing_->expose_offsets(); }
    Status truncate(std::uint64_t size) override;
    Status commit() override;
    Status step_aside(ledger::AsideReason reason) override;
    void finish_unclosed() noexcept override;

  private:
    [[nodiscard]] bool acts() const noexcept { return state_.team->rank() == 0; }
    [[nodiscard]] bool keeps_last_commit() const noexcept override { return true; }
    Status end_part(const Status& whole, Status committed) override;

    std::shared_ptr<stage::ForwardedWriting> writing_;
};

}   // namespace forebay::file
