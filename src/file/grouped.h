// A file whose members stage: on each node they share a group (group/group.h), and the lowest rank of a node drains.
//
// The drainer makes the board, and the others open it. It removes the board last, after all logs were given back:
// without it recovery could not tell how records of several logs follow each other.
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
    // The members that share memory with this one, among all members of the team. Using it needs no memory.
    struct Node {
        const std::vector<Introduction>& all;   // by rank
        std::string_view name;
        std::size_t rank = 0;   // of this member
        bool durable = false;   // durability=node, of all members

        [[nodiscard]] bool has(const Introduction& member) const noexcept { return member.node == name; }
        [[nodiscard]] std::size_t size() const noexcept;
        [[nodiscard]] bool is_all() const noexcept { return size() == all.size(); }
        // The lowest rank, which drains for the others.
        [[nodiscard]] const Introduction& drainer() const noexcept;
        [[nodiscard]] bool drains() const noexcept { return &drainer() == &all[rank]; }
    };

    // Collective. All members make a group for each node, or none does, and all return the same failure. kNoSpace: the
    // drainer of a node has no room for the board.
    [[nodiscard]] virtual Status join(const Node& node);
    // Collective. After a failed `join`, but for kNoSpace: gives up all that it has made.
    void leave(const Node& node) noexcept;

    [[nodiscard]] bool joined() const noexcept { return group_ != nullptr; }

    Status write(std::span<const Part> parts, stage::ByteClass byte_class, bool together) override;
    // A member alone cannot have all of them step aside.
    Status expose_offsets() override;
    Status step_aside(ledger::AsideReason reason) override;
    void finish_unclosed() noexcept override;
    [[nodiscard]] bool has_ended() const noexcept override { return !joined(); }

  protected:
    using Sharing::Sharing;

    // All have made their writes; the drainers act; the others go on once they have.
    Status by_drainers(const std::function<Status()>& act, Untold untold = Untold::kKeep);
    virtual Status write_parts(std::span<const Part> parts, stage::ByteClass byte_class, bool together) = 0;
    // What the drainer does of a file that nobody closed, once all members have written everything.
    virtual Status drain_unclosed() = 0;
    // Before the group goes, as the file steps aside.
    virtual Status end_group() { return Status::ok(); }
    virtual void remove_journal() noexcept {}

    void abandon(const Status& why) noexcept override;
    Status end_part(const Status& whole, Status committed) override;
    Status give_back(const Status& outcome) override;
    void remove_common_files() noexcept override { remove_board(state_.file->log_number()); }

    std::shared_ptr<group::Group> group_;   // there once `join` has succeeded
    bool drains_ = false;                   // since `join`

  private:
    Status make_board(const Node& node, Result<group::Board>& board);
    Status share_board(const Node& node, Result<group::Board>& board);
    void remove_board(std::uint64_t log) noexcept;
    Status follow_unclosed();
    Status await_and_drain();

    bool read_around_ = false;   // this member's program knows where its data are (expose_offsets)
};

}   // namespace forebay::file
