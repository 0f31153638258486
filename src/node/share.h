// The share of one participant in a file that the processes of its node write together (stage/share.h),
// over a board and the logs of all.
//
// Reading the other logs is done by lanes. The drainer also has a listener thread, which waits for the
// board's doorbell and then has the staged file look at what has come; it sleeps in the kernel meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "area/process.h"
#include "board/board.h"
#include "node/lane.h"
#include "stage/share.h"

namespace forebay::node {

class NodeShare final : public stage::Share {
  public:
    struct Setup {
        board::Board board;
        std::uint64_t self = 0, drainer = 0;            // participants
        std::vector<area::ProcessIdentity> processes;   // of the participants
        std::uint64_t wake_bytes = 0;                   // so much must have come before the drainer is woken
        bool several_nodes = false;                     // others ask what is not drained yet
        bool durable = false;                           // durability=node, in all of them
        std::uint64_t team = 0, nodes = 1;              // for recovery, with several nodes (board/board_format.h)
        bool consistent = false;                        // and every rank keeps an undo journal
        std::vector<std::string> directories{};         // of the participants; what is not there is not known
    };
    explicit NodeShare(Setup setup);
    ~NodeShare() override;

    // The log of `participant`, the next one without a lane. Null: it need not be read.
    void add_lane(std::unique_ptr<io::File> pool, std::uint64_t segment_bytes);
    // Starts the drainer's listener; `look(room_wanted)` is called from its thread. kUnavailable: no thread.
    Status listen(std::function<void(bool)> look);
    void stop_listening() noexcept;

    // What other nodes may read, on the drainer.
    [[nodiscard]] board::Exposed& exposed() const noexcept { return setup_.board.header().exposed; }

    // Until the drainer has drained all that this participant, or one that it has synchronised with, had staged when
    // the call began. Several nodes only. Errors: the drainer cannot, or has died.
    Status await_drained();

    // A marker was appended, between two meetings.
    void marked() noexcept { setup_.board.header().epoch.fetch_add(1, std::memory_order_acq_rel); }
    // The drainer has finished with the file: nobody need wait for it any more. `outcome`: whether all of it is in the
    // target, for those who ask with `outcome_of_end`.
    void finished(const Status& outcome = Status::ok()) noexcept;
    // The others wait for that. kUnavailable: the drainer has died.
    Status wait_until_finished(std::optional<std::chrono::milliseconds> at_most = std::nullopt);
    // Where the processes end without having closed the file: this one says how far it has come, and the drainer waits
    // until all others that live have come so far. kUnavailable: one of them has not in time.
    enum class End : std::uint64_t { kWritten = 2, kGivenBack = 3 };   // in board::BoardRow::wants_room
    void come_to_end(End end) noexcept;
    // Without `at_most`: until all others that live have.
    Status await_ends(End end, std::optional<std::chrono::milliseconds> at_most);
    // All others have, none of them has died before.
    [[nodiscard]] bool all_came_to(End end) const noexcept;
    // Once the drainer has finished: why not all of it is in the target.
    [[nodiscard]] Status outcome_of_end() const;

    [[nodiscard]] bool drains() const noexcept override { return setup_.self == setup_.drainer; }
    std::uint64_t next_sequence() noexcept override;
    void published() noexcept override;
    [[nodiscard]] std::uint64_t complete_below() const noexcept override { return complete_below_; }
    void await_complete() noexcept override;
    [[nodiscard]] bool completeness_awaited() const noexcept override { return completeness_awaited_; }
    [[nodiscard]] const Status& damage() const noexcept override {
        return setup_.board.lost() ? setup_.board.loss() : damage_;
    }
    [[nodiscard]] const Status& lost() const noexcept override {
        return setup_.board.lost() ? setup_.board.loss() : ok_;
    }
    void at_rest() noexcept override;
    [[nodiscard]] std::uint64_t committed_size() const noexcept override {
        return setup_.board.header().committed_size.load(std::memory_order_acquire);
    }
    void set_committed_size(std::uint64_t size) noexcept override {
        setup_.board.header().committed_size.store(size, std::memory_order_release);
    }
    [[nodiscard]] std::optional<std::uint64_t> memory_pace() const noexcept override {
        const std::uint64_t ns = setup_.board.header().memory_pace.load();
        return ns != 0 ? std::optional(ns) : std::nullopt;
    }
    void set_memory_pace(std::optional<std::uint64_t> ns) noexcept override {
        setup_.board.header().memory_pace.store(ns.value_or(0) * setup_.processes.size());
    }
    [[nodiscard]] std::uint64_t participants() const noexcept override { return setup_.processes.size(); }
    [[nodiscard]] board::WritesBeside& beside() noexcept override { return setup_.board.header().beside; }
    void note_staged(std::span<const log::FileLog::Part> parts) noexcept override;
    [[nodiscard]] ByteRange first_unstaged(ByteRange range) const noexcept override;
    [[nodiscard]] log::Sharing sharing() const noexcept override {
        return {setup_.consistent      ? log::Sharing::Kind::kConsistentNodes
                : setup_.several_nodes ? log::Sharing::Kind::kSeveralNodes
                                       : log::Sharing::Kind::kOneNode,
                setup_.board.header().group, setup_.durable ? static_cast<std::uint32_t>(setup_.self) : 0};
    }
    [[nodiscard]] bool durable() const noexcept override { return setup_.durable; }
    [[nodiscard]] std::uint64_t lane() const noexcept override { return setup_.self; }
    void adopted(const log::Segment& segment, std::uint64_t order) noexcept override;
    void appended(std::span<const log::FileLog::Part> parts) noexcept override;
    void all_drained() noexcept override;
    [[nodiscard]] std::uint64_t released() const noexcept override {
        return setup_.board.row(setup_.self).released.load(std::memory_order_acquire);
    }
    void set_released(std::uint64_t order) noexcept override {
        setup_.board.row(setup_.self).released.store(order, std::memory_order_release);
    }
    Status wait_for_room(std::uint64_t seen) override;
    [[nodiscard]] std::uint64_t present_below() const noexcept override {
        return setup_.board.header().sequence.load();
    }
    Status drain_below(std::uint64_t below) override;
    bool find() override;
    void visit_found(const Visit& visit) override;
    void followed() override;
    void count_found(std::atomic<std::uint64_t>& pending) noexcept override;
    [[nodiscard]] std::uint64_t found_bytes() const noexcept override { return found_bytes_; }
    void restart() override;
    std::optional<log::Frontier> recycle(const Account& account) noexcept override;
    [[nodiscard]] board::Statement survey() const override;
    bool plan_release(const Account& account, board::Statement& plan) override;
    Status state(const board::Statement& statement) override;
    void release(const board::Statement& stated) noexcept override;
    Status retire() override;
    void synced(std::uint64_t end) noexcept override {
        setup_.board.row(setup_.self).synced.store(end, std::memory_order_release);
    }
    void fail(int sys_errno, bool through) noexcept override;
    void let_through() noexcept override;
    [[nodiscard]] bool goes_through() const noexcept override {
        return setup_.board.header().through.load(std::memory_order_acquire) == board::Through::kNow;
    }

  private:
    void mark(ByteRange range, std::uint64_t ticket) noexcept;
    void serve(const std::stop_token& stop, const std::function<void(bool)>& look);
    [[nodiscard]] bool is_alive(std::uint64_t participant) const noexcept;
    [[nodiscard]] Status drainer_gone() const;
    [[nodiscard]] bool worth_following() const noexcept;
    bool read_cut();
    void forget_records() noexcept;
    [[nodiscard]] std::uint64_t visible_below() const noexcept;
    [[nodiscard]] log::Frontier frontier() const noexcept;
    std::optional<log::Frontier> next_frontier(const Account& account) const noexcept;
    bool store_frontier(const log::Frontier& next) noexcept;
    void forget_numbers_of_the_dead() noexcept;

    Setup setup_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::vector<Lane::Record> records_;   // found, not visited
    std::uint64_t new_bytes_ = 0;         // payload of those that were found last
    std::uint64_t found_bytes_ = 0;       // payload of those that are counted
    std::size_t counted_ = 0;             // of those
    bool completeness_awaited_ = false;
    std::uint64_t released_at_restart_ = 0;   // by all
    log::Frontier dead_at_restart_{0, 0};     // what was below does not count, whatever is found
    // Found: all records that had a ticket then, or a lower number.
    struct Found {
        std::uint64_t tickets = 0, below = 0;
    };
    Found found_;
    std::uint64_t complete_below_ = 0;   // all records with lower numbers have been followed
    std::atomic<bool> alone_{false};     // the others have stopped writing: every record is complete
    Status damage_;                      // a log that cannot be followed
    const Status ok_;
    std::uint64_t statements_ = 0;   // made so far; by one thread at a time
    io::SharedWord ending_{0};       // raised to end the listener
    std::jthread listener_;          // last: ends first
};

}   // namespace forebay::node
