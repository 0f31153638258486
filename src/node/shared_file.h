// A file that the members of a team have open together, each through its own staged file.
//
// The members of one node share what they stage (group/group.h): the lowest rank of a node drains for it. Writes
// and reads are independent; open, truncate, commit, step_aside, settle and close are collective over the
// team, and what one member fails at fails on all, with the same code.
//
// Several nodes: each stages raw data and drains it without holding anything back; metadata is written through
// by whoever writes it. `commit` and `settle` drain everywhere, after which everything is visible on every
// node. `read` of bytes that another node has staged and not drained waits for them. With nodes=consistent each
// member keeps an undo journal (undo/undo_journal.h), and a commit is made in two steps: consistency.cc.
//
// A staging server has the file (io/forwarded_target.h): each member forwards what it writes, and one of them commits.
// All read what any of them has written, once its call has returned.
//
// Ownership: one object per file, team and process, shared by the handles that opened it together.
// Thread-safety: independent calls from any thread, collective ones from one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "group/group.h"
#include "node/team.h"
#include "stage/engine.h"
#include "undo/undo_journal.h"

namespace forebay::node {

class SharedFile {
  public:
    struct Opened {
        std::shared_ptr<SharedFile> file;
        std::string warning;   // to be shown once
    };
    // Collective. Every member opens the same file for writing; `opened` is what came of that here. The engine outlives
    // the file. Errors on any member are errors on all.
    static Result<Opened> open(std::shared_ptr<stage::Engine> engine, Result<stage::OpenTarget> opened,
                               std::shared_ptr<Team> team);
    ~SharedFile();
    SharedFile(const SharedFile&) = delete;
    SharedFile& operator=(const SharedFile&) = delete;

    // The claim on the file (Engine::claim) is given up when the file is closed, before any member comes back from
    // that.
    void hold(std::unique_ptr<io::Claim> claim) noexcept { claim_ = std::move(claim); }

    [[nodiscard]] Team& team() const noexcept { return *team_; }
    [[nodiscard]] std::uint64_t size() const { return file_->size(); }
    [[nodiscard]] stage::StagedFile& staged() const noexcept { return *file_; }
    // Members on other nodes stage parts of the file.
    [[nodiscard]] bool on_several_nodes() const noexcept { return several_nodes_ && group_ != nullptr; }
    // What may be undone is kept: a crash leaves the last commit, once every node has recovered. Null: it is not.
    [[nodiscard]] const undo::UndoJournal* journal() const noexcept { return journal_.get(); }

    // Independent. `together`: part of what all members do together, before they meet: a collective write, or
    // filling what others will write. Where such pieces lie another node has written, or will: with several
    // nodes they go straight to the file.
    Status write(std::span<const stage::StagedFile::Part> parts, stage::ByteClass byte_class, bool together = false);
    // Independent. A failure that the others do not know of, as that of a `write`: told on all members by the commit or
    // close that comes next, once; of metadata by all that come, as HDF5 takes them for written and does not write them
    // again.
    void defer_error(Status failure, stage::ByteClass of) noexcept;
    Status read(std::span<const stage::StagedFile::ReadPart> parts);
    Status read(std::uint64_t offset, io::MutableBytes into) {
        const stage::StagedFile::ReadPart part{offset, into};
        return read({&part, 1});
    }
    // Independent. This member's program is told where in the file its data are, and may read them there beside HDF5:
    // what its node has staged is in the file on return, and from now on each write of raw data by this member returns
    // once it is there. What members of other nodes write is there when MPI says so: after a commit. Counted.
    Status expose_offsets();

    // Collective: a barrier; with a failure on any member, that failure on all.
    Status meet();
    Status agree(const Status& mine);
    // The same after a write that all have made a part of: what they wrote belongs together.
    Status agree_on_write(const Status& mine);
    // Collective: whether it is so for any member.
    Result<bool> any(bool mine);
    // Collective. After it every member sees the new size.
    Status truncate(std::uint64_t size);
    // Collective. One consistent state (H5Fflush): it is in the log, where it survives the death of the
    // processes, and on return in the file, where others find it. MPI's rule for a file's sync is the reason:
    // processes with another communicator may open the file now. A write that failed on one rank (`defer_error`) fails
    // it on all, and nothing is committed: a crash leaves the last commit that was whole.
    Status commit();
    // Collective. With several nodes everything staged is drained: space may be freed and used otherwise.
    // On one node nothing needs to be done.
    Status settle();
    // Independent. The same for what any member of any node had staged when the call began, as far as this one can know
    // of it: its own, and others' that a synchronisation lies between. Nobody else need be in such a call.
    Status await_drained();
    // Collective. Drains; from then on everything is written through.
    Status step_aside(ledger::AsideReason reason);
    // Collective, once, by the last handle. Drains and sets the size; on failure the logs stay, unless it is only that
    // of a write of raw data that failed on one rank (`defer_error`), or there are several nodes.
    Status close() { return close({}).outcome; }
    // The same with option close, of all members, on one node: it may return once everything is committed. What is left
    // to do is done by each member's engine, without MPI and without this object. The death of the processes loses
    // nothing of what was committed.
    stage::Engine::Detached close(stage::AfterClose afterwards);
    // Not collective, and without MPI: at the end of a process that never closed the file. The drainer waits until the
    // others have come to their ends, for a while, and drains; all give their logs back. What cannot be brought home
    // stays, and StagedFile::finish_unclosed tells why.
    void finish_unclosed() noexcept;

  private:
    SharedFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<Team> team);
    Status introduce(Result<stage::OpenTarget>&& opened, struct Introduction& me, std::string& warning);
    Status join_node(const std::vector<std::size_t>& members, const std::vector<struct Introduction>& all);
    Status make_board(const std::vector<std::size_t>& members, const std::vector<struct Introduction>& all,
                      Result<group::Board>& board);
    Status share_board(const std::vector<std::size_t>& members, const std::vector<struct Introduction>& all,
                       Result<group::Board>& board);
    void leave_board(std::uint64_t log) noexcept;
    void remove_board(std::uint64_t log) noexcept;
    Status begin_statements();
    Status stay_unstaged();
    Status follow_unclosed();
    Status drain_unclosed();
    Status close_now(const Status& whole, Status committed);
    bool defer(std::optional<stage::WaitedClose>& waits);
    void finish_later(stage::AfterClose afterwards) noexcept;
    // Several nodes. Collective. Begins to keep what may be undone, if all want it; the text is a warning.
    Result<std::string> begin_consistency(std::uint64_t team, const area::ProcessIdentity& process);
    Status begin_journal(std::uint64_t team, const area::ProcessIdentity& process, std::uint64_t size);
    Result<std::uint64_t> largest_size();
    Status commit_consistently();
    Status end_consistency();
    void remove_journal() noexcept;
    Status expose_to_others(const std::vector<struct Introduction>& all);
    Status await_others(std::span<const ByteRange> places);   // none of them is empty
    // Whether the others are told what only one rank's program knows yet.
    enum class Untold : bool { kKeep, kTell };
    template <class Act>
    Status by_drainers(Act&& act, Untold untold = Untold::kKeep);
    Status take_deferred_error() noexcept;
    [[nodiscard]] bool acts() const noexcept;

    std::shared_ptr<stage::Engine> engine_;
    std::shared_ptr<Team> team_;
    std::unique_ptr<io::Claim> claim_;
    std::shared_ptr<stage::StagedFile> file_;
    std::shared_ptr<group::Group> group_;          // null: written through
    std::unique_ptr<Window> window_;               // several nodes only
    std::vector<int> other_drainers_;              // ranks
    std::shared_ptr<undo::UndoJournal> journal_;   // with nodes=consistent
    bool drains_ = true;
    bool forwarded_ = false;   // a staging server has the file
    bool several_nodes_ = false;
    bool durable_ = false;   // durability=node, of all members, and one node
    bool attached_ = false;
    bool read_around_ = false;   // this member's program knows where its data are (expose_offsets)
    Status untold_;              // the first failure since the last commit that only this rank knows of
    Status incomplete_;          // the first one of metadata: the file lacks them, whatever is written later
};

}   // namespace forebay::node
