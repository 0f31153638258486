// Shared by an engine's staged files: options, the pool of log segments, the drain threads, the job's deadline, and
// whether the process is ending. Its calls also let a file ask the others for room. Has no lock. Thread-safety: any
// thread may call, without the file's `mutex()`, maybe with its `writer`. `await_a_close` blocks. Calls that make room,
// and `deadline_presses`, may drain and sync.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/options.h"
#include "drain/deadline.h"
#include "drain/patience.h"
#include "drain/scheduler.h"
#include "extent/range.h"
#include "io/file.h"
#include "io/trace.h"
#include "log/segment_pool.h"
#include "stage/fork.h"
#include "stage/spare_time.h"

namespace forebay::stage {

class DeferredCloses;
class FileTable;
class ProcessArea;
class StagedFile;
class Statistics;

class FileContext {
  public:
    struct Parts {
        const Options& options;
        drain::Scheduler& scheduler;
        ProcessArea& area;
        FileTable& files;
        DeferredCloses& closes;
        Statistics& statistics;
    };
    FileContext(const Parts& parts, std::shared_ptr<WaitClock> clock);

    [[nodiscard]] const Options& options() const noexcept { return parts_.options; }
    // Null while no staging area is in use.
    [[nodiscard]] log::SegmentPool* pool() noexcept;
    [[nodiscard]] drain::Scheduler& scheduler() noexcept { return parts_.scheduler; }
    [[nodiscard]] drain::Progress& progress() noexcept { return progress_; }
    [[nodiscard]] SpareTime& spare_time() noexcept { return spare_time_; }
    [[nodiscard]] const io::Trace* trace() const noexcept { return trace_.is_on() ? &trace_ : nullptr; }
    [[nodiscard]] std::uint64_t next_sequence() noexcept { return sequence_.fetch_add(1, std::memory_order_relaxed); }
    // True in a forked child of the process that made this.
    [[nodiscard]] bool inherited() const noexcept { return fork_generation() != born_; }
    // Engine::end_of_process has begun.
    [[nodiscard]] bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
    // Marks the end of the process as begun. Returns false if it was already.
    [[nodiscard]] bool end() noexcept { return !ended_.exchange(true); }

    // Room is needed: every file but `asking` drains all that it may. Returns true if any has something under way.
    bool drain_others_for_room(const StagedFile& asking);
    // Room is needed, nothing is under way: held bytes of all files may drain before their commit. True: some did.
    bool make_held_ready();
    // Deferred closes occupy room: performs one, or waits for one. False: none is under way. Blocks as a close.
    bool await_a_close() noexcept;
    // True once the drain of the staged bytes needs more than a share of the job's time left (drain/deadline.h): closes
    // and flushes then wait for the drain. Looks at the clock. The first one warns the user, and drains all.
    [[nodiscard]] bool deadline_presses() noexcept;
    // Returns the result of the last look.
    [[nodiscard]] bool deadline_pressed() const noexcept { return deadline_.presses(); }
    // True if, besides, so much is staged that a write waits for the drain.
    [[nodiscard]] bool too_much_for_deadline() noexcept;

    // The program has asked for offsets of its data, and may read around forebay. This process no longer stages it.
    void addresses_given(const io::Identity& identity);
    // Counts a drain error that has ended: its bytes are in the target now.
    void count_made_good() noexcept;
    void wrote(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range);

  private:
    const Parts parts_;
    const std::uint64_t born_ = fork_generation();
    std::atomic<bool> ended_{false};
    const io::Trace trace_;
    std::atomic<std::uint64_t> sequence_{1};
    drain::Progress progress_;
    SpareTime spare_time_;
    drain::Deadline deadline_;
};

}   // namespace forebay::stage
