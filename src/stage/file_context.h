// What the staged files of one engine share: options, the pool of log segments, the drain threads, and the calls by
// which a file asks the others for room.
//
// Thread-safety: all calls from any thread, without the file's `mutex()`. Only `await_a_close` blocks.
#pragma once

#include <cstdint>

#include "base/options.h"
#include "drain/patience.h"
#include "drain/scheduler.h"
#include "extent/range.h"
#include "io/file.h"
#include "io/trace.h"
#include "log/segment_pool.h"
#include "stage/spare_time.h"

namespace forebay::stage {

class StagedFile;

class FileContext {
  public:
    virtual ~FileContext() = default;
    [[nodiscard]] virtual const Options& options() const noexcept = 0;
    // Null while no staging area is in use.
    [[nodiscard]] virtual log::SegmentPool* pool() noexcept = 0;
    [[nodiscard]] virtual drain::Scheduler& scheduler() noexcept = 0;
    [[nodiscard]] virtual std::uint64_t next_sequence() noexcept = 0;
    // True in a forked child.
    [[nodiscard]] virtual bool inherited() const noexcept = 0;
    // Room is needed: every file but `asking` drains all that it may. Returns true if any has something under way.
    virtual bool press_files(const StagedFile& asking) = 0;
    // Room is needed and nothing is under way: held bytes of all files may drain before their commit. Returns true if
    // there were any.
    virtual bool promote_held() = 0;
    // Room is needed, and a deferred close keeps some: ends one, or waits for the end of one. Returns false if none is
    // under way. Blocks as a close does.
    virtual bool await_a_close() noexcept = 0;
    // The program knows where in this file its data are: this process does not stage the file from now on.
    virtual void addresses_given(const io::Identity& identity) = 0;
    [[nodiscard]] virtual drain::Progress& progress() noexcept = 0;
    [[nodiscard]] virtual SpareTime& spare_time() noexcept = 0;
    // The job ends soon, for what is staged (drain/deadline.h): a flush waits for the drain.
    [[nodiscard]] virtual bool deadline_presses() noexcept = 0;
    // The job ends soon, and so much is staged that a write waits for the drain.
    [[nodiscard]] virtual bool too_much_for_deadline() noexcept = 0;
    // A failure that was kept has become void: what had failed is in the target.
    virtual void count_made_good() noexcept = 0;
    // One target write has ended: for the trace, and for the time of the last one.
    virtual void wrote(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) = 0;
    // Null if nothing is traced.
    [[nodiscard]] virtual const io::Trace* trace() const noexcept = 0;
};

}   // namespace forebay::stage
