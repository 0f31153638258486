// One request from its arrival to its reply. A call counts it, lets rules fail it, and answers it when its time has
// come.
//
//     Call call(fs, req, Op::kUnlink, [&] { return fs.path_of(parent, name); });
//     if (!call.proceed()) return;                                    // a rule failed it; the reply is sent
//     if (::unlinkat(...) != 0) return call.fail(errno);
//     call.succeed();
// The backing file system's own work runs within the simulated time: an operation takes the longer of the two.
#pragma once

#include <fuse_lowlevel.h>

#include <functional>
#include <string>

#include "filesystem.h"

namespace forebay::slowfs {

class Call {
  public:
    // Calls `path_of` at most once per rule, and only if a rule needs a path.
    Call(FileSystem& fs, fuse_req_t request, Op op, std::function<std::string()> path_of, std::uint64_t offset = 0,
         std::uint64_t size_bytes = 0);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Returns false if a rule fails the operation; the reply is then sent. Blocks while the operation hangs.
    [[nodiscard]] bool proceed();

    // Call it before proceed(), for the rest of an operation (split_tracker.h). Rules treat it as any other.
    void mark_as_rest() noexcept { is_rest_ = true; }

    // The bytes that a read or write may move: the requested number, unless a rule makes it short.
    [[nodiscard]] std::size_t size_bytes() const noexcept { return static_cast<std::size_t>(allowed_bytes_); }

    // The error that a later call on the file reports. The write has to be lost, and to succeed. 0: none.
    [[nodiscard]] int late_error() const noexcept { return late_error_; }

    // Each blocks until the operation's time has come, and ends it. After finish() the caller sends the reply at once.
    void finish(std::uint64_t moved_bytes = 0) { end(moved_bytes, false); }
    void succeed();
    void fail(int sys_errno);

  private:
    void end(std::uint64_t moved_bytes, bool failed);

    Simulation& simulation_;
    fuse_req_t request_;
    Op op_;
    std::function<std::string()> path_of_;
    std::uint64_t offset_;
    std::uint64_t asked_bytes_;
    std::uint64_t allowed_bytes_;
    std::int64_t arrival_ns_;
    int late_error_ = 0;
    bool is_rest_ = false;
    bool ended_ = false;
};

}   // namespace forebay::slowfs
