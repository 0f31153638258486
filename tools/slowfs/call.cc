#include "call.h"

#include <cerrno>

#include <algorithm>
#include <utility>

#include "clock.h"

namespace forebay::slowfs {

Call::Call(FileSystem& fs, fuse_req_t request, Op op, std::function<std::string()> path_of, std::uint64_t offset,
           std::uint64_t size_bytes)
    : simulation_(fs.simulation()),
      request_(request),
      op_(op),
      path_of_(std::move(path_of)),
      offset_(offset),
      asked_bytes_(size_bytes),
      allowed_bytes_(size_bytes),
      arrival_ns_(now_ns()) {
    simulation_.statistics.begin(op);
}

Call::~Call() {
    if (!ended_) fail(EIO);
}

bool Call::proceed() {
    const std::uint64_t releases = simulation_.hangs.releases();
    const Fault fault = simulation_.faults.next(op_, offset_, asked_bytes_, path_of_);
    int error = fault.error;
    if (fault.hang) {
        const auto interrupted = [&] { return fuse_req_interrupted(request_) != 0; };
        switch (simulation_.hangs.wait(releases, fault.hang_ns_max, interrupted)) {
            case HangEnd::kReleased:
            case HangEnd::kTimedOut: break;
            case HangEnd::kInterrupted: error = EINTR; break;
            case HangEnd::kStopped: error = EIO; break;
        }
        arrival_ns_ = now_ns();   // the hang uses no bandwidth
    }
    allowed_bytes_ = std::min(asked_bytes_, fault.size_bytes_max);
    if (fault.late && error == fault.error) late_error_ = std::exchange(error, 0);
    if (error != 0) fail(error);
    return error == 0;
}

void Call::succeed() {
    end(0, false);
    fuse_reply_err(request_, 0);
}

void Call::fail(int sys_errno) {
    end(0, true);
    fuse_reply_err(request_, sys_errno);
}

void Call::end(std::uint64_t moved_bytes, bool failed) {
    ended_ = true;
    Throttle& throttle = simulation_.throttle;
    const pid_t client = fuse_req_ctx(request_)->pid;
    const std::int64_t due_arrival_ns = simulation_.lateness.due_arrival(client, moved_bytes, arrival_ns_);
    const pid_t caller = throttle.caller_kind() == Throttle::Caller::kProcess
                             ? simulation_.callers.process_of(client, arrival_ns_)
                             : client;
    const std::int64_t due_ns = is_rest_ ? throttle.reserve_rest(op_, moved_bytes, due_arrival_ns, caller)
                                         : throttle.reserve(op_, moved_bytes, due_arrival_ns, caller);
    if (due_ns > due_arrival_ns) {   // else the simulation has no delay
        sleep_until(due_ns, simulation_.stopping);
        simulation_.lateness.answered(client, due_ns, now_ns());
    }
    // Counts before the reply, so that the client finds the operation in the statistics.
    const std::int64_t took_ns = now_ns() - arrival_ns_;
    if (is_rest_) {
        simulation_.statistics.end_rest(op_, moved_bytes, failed, took_ns);
    } else {
        simulation_.statistics.end(op_, asked_bytes_, moved_bytes, failed, took_ns);
    }
}

}   // namespace forebay::slowfs
