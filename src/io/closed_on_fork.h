// A socket that forked children do not keep, as if there were an O_CLOFORK.
//
// The other side learns of a process's death by the end of its connection, and a child of fork(2) has the same one: it
// would go on as long as the child. So a child closes what is named here before fork(2) returns in it
// (pthread_atfork). It does nothing else, and the parent nothing at all. Children that do not come that way (vfork,
// clone) keep the socket until they run another program. So does one that is forked between the making of the socket
// and its naming here.
//
// Thread-safety: any thread. Nothing blocks, and nothing takes a lock, so a fork waits for nobody.
#pragma once

#include <cstdint>

namespace forebay::io {

class ClosedOnFork {
  public:
    ClosedOnFork() = default;
    ~ClosedOnFork();
    ClosedOnFork(const ClosedOnFork&) = delete;
    ClosedOnFork& operator=(const ClosedOnFork&) = delete;

    // Until this object goes. A number that stands for something else than this socket by then is left alone. Once.
    // Without memory for it, or without handlers of forks, children keep the socket.
    void name(int number, std::uint64_t inode) noexcept;

    struct Named;   // one socket; never freed, and used again

  private:
    Named* named_ = nullptr;
};

}   // namespace forebay::io
