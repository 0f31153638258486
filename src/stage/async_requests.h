// Reads that a program has asked for with an asynchronous call and does not wait for yet. A thread of this class
// carries out a request, in no order. A thread that is about to change bytes that a read asked for waits for that read
// first (`await_reads`), so a read returns the content at its request. The bytes go to the program's own memory, which
// has to stay until the request has ended. At most kRequestsMax requests and kPiecesMax pieces exist at a time; a
// thread that makes one more waits for room. Thread-safety: every call from any thread. Fork: in the child, a request
// that had not ended counts as failed, and none is made. Blocking: as named. A crash leaves nothing of a request.
// Source: HDF5 reference manual, H5ES and H5VL_request_class_t.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "extent/range.h"
#include "stage/staged_file.h"
#include "task/engine.h"

namespace forebay::stage {

// Why an asynchronous read was made before its call returned.
enum class AtOnce : std::uint8_t {
    kFile,          // not ours, or written by several ranks
    kLayout,        // compact, virtual, external, filtered
    kConversion,    // the types differ, a transformation, variable length, references
    kSelection,     // HDF5 has to judge it, or there is nothing to read
    kUnallocated,   // fill values
    kHeld,          // HDF5 keeps bytes that it cannot be asked to write
    kCollective,    // other ranks are in the call
    kPieces,        // too many
    kCount,
};
[[nodiscard]] const char* at_once_name(AtOnce why) noexcept;

class AsyncRequests;

class AsyncRequest : public std::enable_shared_from_this<AsyncRequest> {
  public:
    enum class State : std::uint8_t { kWaiting, kRunning, kDone, kFailed, kCanceled };
    static constexpr std::uint64_t kForever = UINT64_MAX;

    // Blocks until it has ended, or for `timeout_ns`.
    State wait(std::uint64_t timeout_ns) noexcept;
    // Cancels a request that has not begun. Returns its state. Does not block.
    State cancel() noexcept;
    // Only after the end. `failure` is of a failed one. `begin_ns`: CLOCK_REALTIME.
    [[nodiscard]] const Status& failure() const noexcept { return failure_; }
    [[nodiscard]] std::uint64_t begin_ns() const noexcept { return begin_ns_; }
    [[nodiscard]] std::uint64_t took_ns() const noexcept { return took_ns_; }

    ~AsyncRequest();
    AsyncRequest(const AsyncRequest&) = delete;
    AsyncRequest& operator=(const AsyncRequest&) = delete;

  private:
    friend class AsyncRequests;
    struct Core;
    AsyncRequest(std::shared_ptr<Core> core, std::shared_ptr<StagedFile> file, std::vector<StagedFile::ReadPart> parts);
    [[nodiscard]] bool touches(const StagedFile& file, ByteRange range) const noexcept;
    void run() noexcept;
    void end_locked(State state) noexcept;
    [[nodiscard]] bool is_orphan_locked() noexcept;

    const std::shared_ptr<Core> core_;
    std::shared_ptr<StagedFile> file_;          // until it has ended: the engine may end before the request is released
    std::vector<StagedFile::ReadPart> parts_;   // ascending
    State state_ = State::kWaiting;             // as all below: under the lock of the core
    Status failure_;
    std::uint64_t begin_ns_ = 0, took_ns_ = 0;
};

struct AsyncCounters {
    std::uint64_t reads = 0, read_bytes = 0, canceled = 0, failed = 0;
    std::uint64_t waits = 0;   // of calls that were about to change what a read had asked for
    std::array<std::uint64_t, static_cast<std::size_t>(AtOnce::kCount)> at_once{};
};

class AsyncRequests {
  public:
    static constexpr std::size_t kRequestsMax = 1024, kPiecesMax = std::size_t{1} << 18;

    explicit AsyncRequests(std::size_t threads);
    ~AsyncRequests();
    AsyncRequests(const AsyncRequests&) = delete;
    AsyncRequests& operator=(const AsyncRequests&) = delete;

    // Reads as StagedFile::read does, and in the end only that may fail. `pieces` are kPiecesMax at most. Blocks for
    // room. kUnavailable: a forked child, or the process ends.
    Result<std::shared_ptr<AsyncRequest>> read(std::shared_ptr<StagedFile> file,
                                               std::vector<StagedFile::ReadPart> pieces);

    // Blocks until no read that was made before asks for any of these bytes.
    void await_reads(const StagedFile& file, ByteRange range) noexcept;
    // Blocks until every request of the file has ended; null: of all files.
    void await(const StagedFile* file) noexcept;
    [[nodiscard]] bool idle() const noexcept;

    void count(AtOnce why) noexcept;
    [[nodiscard]] AsyncCounters counters() const noexcept;

    // Cancels what has not begun, and waits for the rest. False: at `until` a request is still being carried out.
    [[nodiscard]] bool stop(std::chrono::steady_clock::time_point until);
    // In a forked child (task::Engine::forget_threads).
    void forget_threads() noexcept { tasks_.forget_threads(); }

  private:
    void cancel_waiting() noexcept;
    Result<std::shared_ptr<AsyncRequest>> submit(std::shared_ptr<AsyncRequest> request);

    const std::shared_ptr<AsyncRequest::Core> core_;
    task::Engine tasks_;
};

}   // namespace forebay::stage
