// A socket that forked children do not keep, like an O_CLOFORK. A child with the connection would hide this process's
// death from the peer. So it closes the named sockets before fork(2) returns in it (pthread_atfork), and does nothing
// else. Children of vfork and clone keep the socket until they run another program. So does a child that is forked
// between creation and naming. Thread-safety: any thread. No call blocks or takes a lock, so a fork never waits.
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
