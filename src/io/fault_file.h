// Fault injection at the seam: a File or Directory that passes everything on, except what a plan says
// must fail.
//
// Fault model: a call is counted when it arrives and fails *instead of* being carried out (a failing
// write may be told to carry out a prefix first, as a real one may), or hangs before it is carried out. The device
// itself never lies: what a call reported as done is there. Power loss is modelled by test/support/power.h.
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
    // Every operation counts as matching.
    void fail_any(std::uint64_t nth, std::uint64_t count, int sys_errno, std::size_t bytes_done_first = 0);
    // From the next matching call on, all of them wait until `let_go`, and are carried out then.
    void hang(Operation operation);
    void let_go();
    // One of them, or the next one, is carried out.
    void let_one_go();
    // Blocks until an unreleased call hangs. False: none does in `at_most`.
    bool await_hanging(std::chrono::milliseconds at_most = std::chrono::minutes(1));
    // True while a call hangs that is not released yet.
    [[nodiscard]] bool hanging() const;
    void clear();

    struct Verdict {
        int sys_errno = 0;   // 0: carry on
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
