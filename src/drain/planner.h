// Chooses the next target writes of one file's outflow (drain/outflow.h), and whether to wake a drain thread for them.
// A plan takes ready extents in file order, from the end of the last plan on, and merges them (plan/merge.h). A short
// run, and the last partial stripe of a file that grows, wait for more bytes, unless the drain is urgent. A paused
// drain plans nothing until a call waits for the target or a writer needs room. The drain of a file on several nodes
// never pauses, and none of its pieces waits. Invariants: a plan overlaps no write in flight and contains no unreadable
// byte. An extent stays staged until all older records are known. Not thread-safe: the file's lock. Nothing blocks.
#pragma once

#include <cstdint>
#include <utility>

#include "base/options.h"
#include "drain/failures.h"
#include "drain/listener.h"
#include "drain/target.h"
#include "drain/target_facts.h"
#include "drain/write_queue.h"
#include "group/record_order.h"
#include "index/staged_bytes.h"

namespace forebay::drain {

class Planner {
  public:
    // The parts of the outflow that a plan reads or changes. They outlive the planner.
    struct Parts {
        const Options& options;
        DrainListener& listener;
        const index::StagedBytes& bytes;
        const TargetFacts& facts;
        Target& target;
        Failures& failures;
        WriteQueue& queue;
    };
    explicit Planner(const Parts& parts) noexcept : parts_(parts) {}

    // Begins at the start of a file that this process alone writes.
    void open() noexcept;
    // Makes this process the drainer of a group with records of `order`. `at_once`: no piece waits for its neighbours.
    void share(group::RecordOrder& order, bool at_once) noexcept;
    [[nodiscard]] bool shared() const noexcept { return order_ != nullptr; }

    // Adds writes to the queue if enough bytes are ready. The queue has no planned writes before the call.
    // std::bad_alloc: adds none.
    void plan();
    // Returns planned writes that no thread has taken to the staged bytes; `put_back` returns one that has not begun.
    void drop_planned();
    void put_back(const plan::TargetWrite& write);

    // True if enough bytes are ready for a plan.
    [[nodiscard]] bool worth_draining() const noexcept;
    // True if one more drain thread would find work.
    [[nodiscard]] bool wants_thread() const noexcept { return parts_.queue.has_room() && worth_draining(); }
    // After the end of a write: a plan that waited for it may begin. Returns true if there is work to take.
    [[nodiscard]] bool look_again() noexcept;
    // A writer needs room: makes the drain urgent.
    struct RoomDrain {
        bool wants_thread = false, under_way = false;
    };
    RoomDrain drain_for_room();

    // True if all ready bytes go, however few.
    [[nodiscard]] bool urgent() const noexcept { return urgent_; }
    bool set_urgent(bool urgent) noexcept { return std::exchange(urgent_, urgent); }   // returns the value before
    // A call waits for the target: makes the drain urgent and ends a pause.
    void demand_all() noexcept {
        urgent_ = true;
        paused_ = false;
    }
    // Makes the drain urgent if bytes are ready or a truncation is due, and not urgent otherwise.
    void hurry() noexcept { urgent_ = parts_.listener.backlog().any_ready || parts_.target.cut_due().has_value(); }

    // Plans no write until `resume`, `drain_for_room` or `Outflow::drain`. Planned writes go on.
    void pause() noexcept { paused_ = !at_once_; }
    [[nodiscard]] bool paused() const noexcept { return paused_; }
    // Returns true if a thread is wanted.
    [[nodiscard]] bool resume() noexcept {
        paused_ = false;
        return look_again();
    }

    // True if no ready byte belongs to a record below `below`.
    [[nodiscard]] bool drained_below(std::uint64_t below) const;
    // True if a ready byte is readable.
    [[nodiscard]] bool readable_left() const;

  private:
    // The outcome of a plan. kTooLittle: all pieces wait for neighbours. kMore: no write yet, but more extents follow.
    enum class Found : std::uint8_t { kWrites, kNothing, kTooLittle, kMore };
    struct Candidates;

    void plan_next();
    Found plan_from(std::uint64_t begin);
    [[nodiscard]] Candidates find_candidates(std::uint64_t begin) const;
    void add(plan::TargetWrite write);
    // Visits ready extents from `offset` on, ascending, until `visit` returns false. The one at `offset` comes whole.
    template <class Visit>
    void walk_ready(std::uint64_t offset, Visit&& visit) const {
        parts_.bytes.index().ready().map().walk_from(offset, [&](ByteRange range, const index::StagedPlace& at) {
            return visit(plan::Piece{range, at.data(), at.sequence, at.keeper()});
        });
    }

    const Parts parts_;
    group::RecordOrder* order_ = nullptr;           // null: this process alone writes the file
    std::uint64_t cursor_ = 0;                      // begin of the next plan (elevator)
    std::uint64_t planned_since_start_bytes_ = 0;   // since a plan began at the file's start
    std::uint64_t plan_from_bytes_ = 0;             // no offset: the next plan waits for so many ready bytes
    bool wraps_ = false;   // the next plan begins at the file's start, once no write is in flight
    bool urgent_ = false;
    bool at_once_ = false;   // see share
    bool paused_ = false;
};

}   // namespace forebay::drain
