// Fault injection at the seam: a File or Directory that forwards all calls except those that a plan fails. A call is
// counted on arrival, and fails *instead of* being carried out, or hangs before it. A failing write may carry out a
// prefix first. The device never lies: the bytes of a successful call are there. Power loss: test/support/power.h.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "io/file.h"

namespace forebay::io {

enum class Operation : std::uint8_t {
    kOpen,
    kCreateDirectory,
    kRemove,
    kRead,
    kWrite,
    kSize,
    kResize,
    kAllocate,
    kPunch,
    kMap,
    kSync,
};

// Shared by all files made from it. Thread-safe.
class FaultPlan {
  public:
    // From the `nth` matching call on (1 = the next), `count` calls fail with `sys_errno`.
    void fail(Operation operation, std::uint64_t nth, std::uint64_t count, int sys_errno,
              std::size_t bytes_done_first = 0);
    void fail_any(std::uint64_t nth, std::uint64_t count, int sys_errno, std::size_t bytes_done_first = 0);
    // All later matching calls wait until `let_go`, and are then carried out.
    void hang(Operation operation);
    void let_go();
    // Releases one waiting call, or the next one.
    void let_one_go();
    // Blocks until an unreleased call hangs. Returns false if none does within `at_most`.
    bool await_hanging(std::chrono::milliseconds at_most = std::chrono::minutes(1));
    [[nodiscard]] bool hanging() const;
    void clear();

    struct Verdict {
        int sys_errno = 0;   // 0: success
        std::size_t bytes_done_first = 0;
    };
    Verdict arrive(Operation operation);
    [[nodiscard]] std::uint64_t fired() const;

  private:
    mutable std::mutex mutex_;
    std::condition_variable hanging_changed_;
    std::optional<Operation> hangs_;
    std::size_t hanging_ = 0, passes_ = 0;
    bool armed_ = false;
    bool any_ = false;
    Operation operation_ = Operation::kWrite;
    std::uint64_t nth_ = 0, count_ = 0, seen_ = 0, fired_ = 0;
    Verdict verdict_;
};

[[nodiscard]] std::unique_ptr<File> make_fault_file(std::unique_ptr<File> file, std::shared_ptr<FaultPlan> plan);
[[nodiscard]] std::unique_ptr<Directory> make_fault_directory(std::unique_ptr<Directory> directory,
                                                              std::shared_ptr<FaultPlan> plan);

}   // namespace forebay::io
