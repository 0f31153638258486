// Readable once somebody wants this process to end (SIGTERM, SIGINT). From `take` on, whether one has come or not, the
// next such signal does what it does by default. In a forked child it tells of the child's signals.
//
// To be made before any thread, which inherits what is blocked. Thread-safety: one thread. Nothing blocks.
#pragma once

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace forebay::cli {

class EndSignal {
  public:
    EndSignal() {
        ::sigemptyset(&signals_);
        ::sigaddset(&signals_, SIGTERM);
        ::sigaddset(&signals_, SIGINT);
        ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
        number_ = ::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
    }
    ~EndSignal() { ::close(number_); }
    EndSignal(const EndSignal&) = delete;
    EndSignal& operator=(const EndSignal&) = delete;

    [[nodiscard]] int number() const noexcept { return number_; }
    void take() {
        signalfd_siginfo taken;
        while (::read(number_, &taken, sizeof taken) < 0 && errno == EINTR) {
        }
        ::pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    }

  private:
    sigset_t signals_{};
    int number_ = -1;
};

}   // namespace forebay::cli
