// The choice of the target writes that one outflow makes next, and whether a drain thread is worth waking for them.
//
// A plan takes ready extents in file order, from where the last plan has ended, and makes target writes of them
// (plan/merge.h). Short runs and growing ends wait for neighbours, unless the drain is urgent. A paused drain plans
// nothing; a call that waits for the target, or a writer that needs room, ends the pause. A drain of several nodes
// never pauses, and none of its pieces waits.
// Invariants: a plan overlaps no write in flight, and takes no byte that could not be read back; a record that lacks
// older ones is left for later.
// Not thread-safe: the file's lock guards it. Nothing blocks.
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
    // The parts of the outflow that a plan depends on, or changes. They outlive the planner.
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

    // The file is opened again, by this process alone: the next plan begins at its start.
    void open() noexcept;
    // This process drains for a group whose records have `order`. `at_once`: no piece waits for its neighbours.
    void share(group::RecordOrder& order, bool at_once) noexcept;
    [[nodiscard]] bool shared() const noexcept { return order_ != nullptr; }

    // Adds writes to the queue, if enough is ready.
    void plan();
    // Planned writes that no thread has taken stay staged, and are planned again. So is `write`, which was taken and
    // has not begun.
    void drop_planned();
    void put_back(const plan::TargetWrite& write);

    // Enough is ready for a plan.
    [[nodiscard]] bool worth_draining() const noexcept;
    // One drain thread more would find something to do.
    [[nodiscard]] bool wants_thread() const noexcept { return parts_.queue.has_room() && worth_draining(); }
    // After the end of a write: returns true if there is something to take now. Pieces that had to wait for all writes
    // in flight are planned once these have ended.
    [[nodiscard]] bool look_again() noexcept;
    // A writer needs room: all that may go goes at once.
    struct Pressed {
        bool wants_thread = false, under_way = false;
    };
    Pressed press();

    // All that is ready goes, however little it is.
    [[nodiscard]] bool urgent() const noexcept { return urgent_; }
    bool set_urgent(bool urgent) noexcept { return std::exchange(urgent_, urgent); }   // returns the value before
    // A call waits for the target.
    void demand_all() noexcept {
        urgent_ = true;
        paused_ = false;
    }
    void hurry() noexcept { urgent_ = parts_.listener.backlog().any_ready || parts_.target.cut_due().has_value(); }

    // Plans no write until `resume`, `press` or `Outflow::drain`. Planned writes go on.
    void pause() noexcept { paused_ = !at_once_; }
    [[nodiscard]] bool paused() const noexcept { return paused_; }
    // Returns true if a thread is wanted.
    [[nodiscard]] bool resume() noexcept {
        paused_ = false;
        return look_again();
    }

    // Nothing of a record with a lower number than `below` is ready.
    [[nodiscard]] bool drained_below(std::uint64_t below) const;
    // Something is ready that can be read back.
    [[nodiscard]] bool readable_left() const;

  private:
    // The outcome of a plan. kTooLittle: all pieces wait for neighbours. kMore: nothing yet, and there is more to look
    // at.
    enum class Found : std::uint8_t { kWrites, kNothing, kTooLittle, kMore };
    struct Candidates;

    Found plan_from(std::uint64_t begin);
    [[nodiscard]] Candidates find_candidates(std::uint64_t begin) const;
    void add(plan::TargetWrite write);
    // Visits the ready extents from `offset` on as plan::Piece, ascending, the one that holds `offset` as a whole,
    // until `visit` returns false.
    template <class Visit>
    void walk_ready(std::uint64_t offset, Visit&& visit) const {
        parts_.bytes.index().walk_ready(offset, [&](ByteRange range, const index::StagedPlace& at) {
            return visit(plan::Piece{range, at.data(), at.sequence, at.keeper()});
        });
    }

    const Parts parts_;
    group::RecordOrder* order_ = nullptr;           // null: this process alone writes the file
    std::uint64_t cursor_ = 0;                      // where the next plan begins (elevator)
    std::uint64_t planned_since_start_bytes_ = 0;   // since a plan began at the file's start
    std::uint64_t plan_from_bytes_ = 0;             // after a fruitless plan: no other one before so much is ready
    bool wraps_ = false;                            // the next plan begins at the start, once nothing is in flight
    bool urgent_ = false;
    bool at_once_ = false;   // see share
    bool paused_ = false;
};

}   // namespace forebay::drain
