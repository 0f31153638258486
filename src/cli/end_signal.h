// A descriptor that becomes readable at SIGTERM or SIGINT. After `take`, with or without a signal before, the next such
// signal has its default effect. In a forked child it reports the child's signals.
// Create it before any thread, because threads inherit the blocked signals. Thread-safety: one thread. No call blocks.
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
