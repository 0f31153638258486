// A socket that forked children do not keep, like an O_CLOFORK.
//
// A peer learns of a process's death by the end of its connection. A child of fork(2) has the same connection and would
// keep it open. So a child closes the sockets named here before fork(2) returns in it (pthread_atfork). The child does
// nothing else, and the parent nothing at all. Children of vfork and clone keep the socket until they run another
// program. So does a child that is forked after the creation of the socket and before its naming here. Thread-safety:
// any thread. No call blocks or takes a lock, so a fork never waits.
#pragma once

#include <cstdint>

namespace forebay::io {

class ClosedOnFork {
  public:
    ClosedOnFork() = default;
    ~ClosedOnFork();
    ClosedOnFork(const ClosedOnFork&) = delete;
    ClosedOnFork& operator=(const ClosedOnFork&) = delete;

    // Names the socket, once, until this object's destruction. If the number belongs to another file by then, the child
    // leaves it alone. Without memory or fork handlers, children keep the socket.
    void name(int number, std::uint64_t inode) noexcept;

    struct Named;   // one socket; never freed, but reused

  private:
    Named* named_ = nullptr;
};

}   // namespace forebay::io
