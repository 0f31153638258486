// The participants: processes of one node that write one file together. Each participant appends to a log of its own.
// The drainer, one of them, follows all logs and writes the target. All map the board (group/board.h), which connects
// them. Thread-safety: any thread may make any call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "area/process.h"
#include "base/status.h"
#include "group/board.h"
#include "log/frontier.h"

namespace forebay::group {

class Participants {
  public:
    struct Setup {
        Board board;
        std::uint64_t self = 0, drainer = 0;            // indices of this process and of the drainer
        std::vector<area::ProcessIdentity> processes;   // in the order of the indices
        std::uint64_t wake_bytes = 0;                   // payload after which a participant wakes the drainer
        bool several_nodes = false;                     // other nodes ask which bytes are not drained yet
        bool durable = false;                           // durability=node, in all participants
        std::uint64_t team = 0, nodes = 1;              // for recovery, with several nodes (group/board_format.h)
        bool consistent = false;                        // each rank also keeps an undo journal
        std::vector<std::string> directories{};         // of the participants; unknown if missing
    };
    // In the drainer, writes the participants onto the board. Recovery leaves the logs alone while one of them lives.
    explicit Participants(Setup setup);

    [[nodiscard]] const Setup& setup() const noexcept { return setup_; }
    [[nodiscard]] Board& board() noexcept { return setup_.board; }
    [[nodiscard]] BoardHeader& header() const noexcept { return setup_.board.header(); }
    [[nodiscard]] BoardRow& row(std::uint64_t participant) const noexcept { return setup_.board.row(participant); }
    [[nodiscard]] BoardRow& own_row() const noexcept { return row(setup_.self); }

    [[nodiscard]] std::uint64_t count() const noexcept { return setup_.processes.size(); }
    [[nodiscard]] bool drains() const noexcept { return setup_.self == setup_.drainer; }
    // Tests the lock in the participant's directory, which works across the node's containers. Returns true if unknown.
    [[nodiscard]] bool is_alive(std::uint64_t participant) const noexcept;
    // Ok while the drainer lives and can write the target.
    [[nodiscard]] Status drainer_gone() const;
    // Returns true if a participant waits for room and none has been released since. A participant that has got room
    // counts as waiting until it runs again, which may take a while on a busy machine.
    [[nodiscard]] bool lacks_room() const noexcept;
    // Returns an error if this process has lost the board. Then it does not see the others' stores, nor do they see its
    // own. A caller must not use a sequence number that it drew before such a check.
    [[nodiscard]] const Status& lost() const noexcept { return setup_.board.lost() ? setup_.board.loss() : ok_; }
    // Records below the frontier are dead (log/frontier.h).
    [[nodiscard]] log::Frontier frontier() const noexcept {
        return {header().dead_raw.load(), header().dead_metadata.load()};
    }

  private:
    Setup setup_;
    const Status ok_;
};

}   // namespace forebay::group
