// A file that the members of its team stage themselves. Those on one node form a group (group/group.h), whose lowest
// rank drains. The drainer makes the board, which the others open. It removes the board last, after all logs were given
// back: recovery needs the board to order the records of several logs. Invariants: all members step aside, or none
// does. While the device of any member's log has lost bytes of it, no commit, no step aside and no close succeeds.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "file/introduction.h"
#include "file/sharing.h"
#include "group/group.h"

namespace forebay::file {

class Grouped : public Sharing {
  public:
    // The members that share memory with this one, and all members of the team. Its functions allocate no memory.
    struct Node {
        const std::vector<Introduction>& all;   // by rank
        std::string_view name;
        std::size_t rank = 0;
        bool durable = false;   // durability=node is set for all members

        [[nodiscard]] bool has(const Introduction& member) const noexcept { return member.node == name; }
        [[nodiscard]] std::size_t size() const noexcept;
        [[nodiscard]] bool is_all() const noexcept { return size() == all.size(); }
        [[nodiscard]] const Introduction& drainer() const noexcept;
        [[nodiscard]] bool drains() const noexcept { return &drainer() == &all[rank]; }
    };

    // Collective. Makes each node's group, or none; failures are equal on all. kNoSpace: no room for a drainer's board.
    [[nodiscard]] virtual Status join(const Node& node);
    // Collective. Undoes a `join` that failed with another code than kNoSpace.
    void leave(const Node& node) noexcept;

    [[nodiscard]] bool joined() const noexcept { return group_ != nullptr; }

    Status write(std::span<const Part> parts, stage::ByteClass byte_class, bool together) override;
    // Collective: the program may now read around HDF5. Drains the staged bytes, and raw data in each later write.
    Status expose_offsets() override;
    Status step_aside(ledger::AsideReason reason) override;
    void finish_unclosed() noexcept override;
    [[nodiscard]] bool has_ended() const noexcept override { return !joined(); }

  protected:
    using Sharing::Sharing;

    // Collective. Waits for all, calls `act` on the drainers and then, if there is one, `all` on every member. kTell: a
    // member's deferred error fails all. In either mode the call fails on all members if any member's log has lost
    // bytes, before `act` or after it.
    Status by_drainers(const std::function<Status()>& act, Untold untold = Untold::kKeep,
                       const std::function<Status()>& all = nullptr);
    virtual Status write_parts(std::span<const Part> parts, stage::ByteClass byte_class, bool together) = 0;
    // Drains a file that the program never closed. The drainer calls this after all members have written everything.
    virtual Status drain_unclosed() = 0;
    // Called as the file steps aside: ends what needs the group. The caller drops the group afterwards.
    virtual Status end_group() { return Status::ok(); }
    virtual void remove_journal() noexcept {}

    void abandon(const Status& why) noexcept override;
    Status end_part(const Status& whole, Status committed) override;   // file/sharing.h explains these
    Status give_back(const Status& outcome) override;
    void remove_common_files() noexcept override { remove_board(state_.file->state().name.log_number); }

    std::shared_ptr<group::Group> group_;   // set by a successful `join`
    bool drains_ = false;

  private:
    Status make_board(const Node& node, Result<group::Board>& board);
    Status share_board(const Node& node, Result<group::Board>& board);
    void remove_board(std::uint64_t log) noexcept;
    // The ends of a process that never closed the file. Returns this member's failed write if the file must stay at its
    // last commit, or ok. All logs stay then.
    [[nodiscard]] Status kept_at_last_commit() const;
    Status follow_unclosed();
    Status await_and_drain();
    Status finish_all();

    bool read_around_ = false;   // since `expose_offsets`: each write of raw data drains
};

}   // namespace forebay::file
