// The outflow of one file: writes its staged bytes to its target. This class gives target writes and changes of size to
// drain threads, or to a thread that waits, and ends them. Its parts:
//
//   OutflowState      planner, queue, target, turns, failures; the lock; opening; halts   drain/outflow_state.h
//   TargetInspector   looks at the target, and notes its state in the log                 drain/target_inspector.h
//   TargetSyncs       syncs of the target                                                 drain/target_syncs.h
//   TargetConfirms    bytes that the target has taken and may still lose                  drain/target_confirms.h
//   BypassWrites      writes of the program that bypass the log                           drain/bypass_writes.h
//
//   outflow.cc         commits, and calls that wait until bytes or a size have reached the target
//   outflow_work.cc    the work of drain threads: how it is taken, carried out and ended
//   outflow_turns.cc   work behind a close
//
// Invariants: each work that was taken is ended once, or put off. A planned write stays only while some thread will
// take it, also after std::bad_alloc: its range is in flight, and writes that bypass the log wait for it. All ready
// bytes reach the target, unless the drain halts. Ownership: the file owns the outflow; while a drain thread works, it
// keeps the file (DrainListener::hold). Thread-safety: the lock is the file's, `state.mutex`, as annotated. It is never
// held across a call of the target. Blocking: a function that drops the lock says so. A wait for the target fails with
// ETIMEDOUT once nothing has reached it for the time in option patience; no byte is lost then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "drain/bypass_writes.h"
#include "drain/outflow_state.h"
#include "drain/scheduler.h"
#include "drain/target_confirms.h"
#include "drain/target_inspector.h"
#include "drain/target_syncs.h"
#include "io/file.h"

namespace forebay::drain {

class Outflow final : public WorkSource {
  public:
    // The lock guards `bytes`. All arguments but `context` outlive the outflow. `path` is for messages.
    Outflow(const DrainContext& context, index::StagedBytes& bytes, DrainListener& listener, const std::string& path);
    Outflow(const Outflow&) = delete;
    Outflow& operator=(const Outflow&) = delete;

    // Wakes a drain thread, or does its work if there is none.
    void wake() EXCLUDES(state.mutex);
    Taken take() override EXCLUDES(state.mutex);
    // Notes a commit, which makes all staged bytes ready. Returns true if a thread is wanted.
    [[nodiscard]] bool committed() noexcept REQUIRES(state.mutex);
    // Drains until no byte is ready or, with `below`, none of an older record. Returns the kept error. Drops the lock.
    Status drain(std::uint64_t below = kOffsetMax) REQUIRES(state.mutex);
    // Repeats all failed work, and forgets the failure if the target then has all bytes. Drops the lock.
    void make_good() REQUIRES(state.mutex);
    // Drains behind a close until the next open: other programs may write the file, and a change by one stops it.
    void begin_turns() REQUIRES(state.mutex);

    // Sets the target to the size of the last commit, unless that takes long. Drops the lock.
    Status show_size() REQUIRES(state.mutex);
    // Sets the target's size while no other call of the target is in flight. Blocks with patience; drops the lock.
    Status resize_target(std::uint64_t size) REQUIRES(state.mutex);

    OutflowState state;
    TargetInspector inspector;
    TargetSyncs syncs;
    TargetConfirms confirms;
    BypassWrites bypass;

  private:
    class WriteWork;
    class ResizeWork;
    struct Cost;
    struct EndedWrite {
        const plan::TargetWrite& write;
        TargetCalls::Call call;
        bool begun;
    };
    struct EndedResize {
        std::uint64_t size;
        TargetCalls::Call call;
        bool lengthened, begun;
    };

    // std::bad_alloc: nothing is taken, and no planned write is left without a thread.
    Taken take_next() REQUIRES(state.mutex);
    Taken find_work() REQUIRES(state.mutex);
    // `told` belongs to the call that waits for the outcome; null if none does.
    Taken take_resize(std::uint64_t size, std::shared_ptr<AwaitedCall> told = nullptr) REQUIRES(state.mutex);
    void carry_out(Taken taken) REQUIRES(state.mutex);
    [[nodiscard]] bool given_up() const noexcept EXCLUDES(state.mutex);
    void complete(const EndedWrite& ended, const Status& outcome, const Cost& cost,
                  const std::vector<ByteRange>& unreadable) EXCLUDES(state.mutex);
    [[nodiscard]] bool may_be_lost(const TargetCalls::Call& call) const noexcept REQUIRES(state.mutex);
    void complete_resize(const EndedResize& ended, const Status& outcome, AwaitedCall* told) EXCLUDES(state.mutex);
    void learn_pace(const plan::TargetWrite& write, const Cost& cost) noexcept REQUIRES(state.mutex);
    [[nodiscard]] bool is_being_lengthened(std::uint64_t committed_size) const noexcept REQUIRES(state.mutex);
    // True if the drain must lengthen the target before it writes: behind a close, unless other processes write or
    // extend the file. The size then shows a cut by another program, even one between a look and a write that would
    // lengthen the target again.
    [[nodiscard]] bool size_comes_first() const noexcept REQUIRES(state.mutex);
    [[nodiscard]] bool may_begin(Turn turn) const noexcept EXCLUDES(state.mutex);
    // Ends work that has not begun; the drain takes it again later. `write` is null for a change of size.
    void put_off(io::File& target, const plan::TargetWrite* write, const TargetCalls::Call& call) noexcept
        EXCLUDES(state.mutex);
    Status begin_turn(io::File& target) noexcept EXCLUDES(state.mutex);
    using NoteEnd = std::function<void(TargetGuard&)>;
    // Ends work that was taken; `note` tells the guard its effect. Looks at the target after the last work of a turn.
    Status end_turn(io::File& target, const NoteEnd& note) noexcept EXCLUDES(state.mutex);

    [[nodiscard]] std::shared_ptr<Outflow> self() { return {state.listener.hold(), this}; }
};

}   // namespace forebay::drain
