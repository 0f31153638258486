#include "base/background_thread.h"

#include <cerrno>
#include <ctime>

namespace forebay {

SignalsBlocked::SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    // A blocked signal of these would end the process, despite a handler such as that of io/guarded_access.h.
    for (const int raised_by_instruction : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
        ::sigdelset(&all, raised_by_instruction);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

OwnWrite::OwnWrite() noexcept {
    sigset_t both, pending;
    ::sigemptyset(&both);
    ::sigaddset(&both, SIGPIPE);
    ::sigaddset(&both, SIGXFSZ);
    ::sigpending(&pending);
    raised_ = both;
    for (const int signal : {SIGPIPE, SIGXFSZ})
        if (::sigismember(&pending, signal) == 1) ::sigdelset(&raised_, signal);
    ::pthread_sigmask(SIG_BLOCK, &both, &before_);
}

OwnWrite::~OwnWrite() {
    const int error = errno;
    const timespec at_once{};
    while (::sigtimedwait(&raised_, nullptr, &at_once) >= 0 || errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
}

}   // namespace forebay
