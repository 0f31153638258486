// The only way in which forebay starts a thread. A new thread inherits the signal mask of its creator, and the kernel
// delivers a signal of the process to any thread that does not block it. If a program blocks a signal to wait for it, a
// thread of ours would take the signal, and the process would end. So our threads block every signal except those that
// an instruction of the thread raises. A signal that a system call raises for its own thread (SIGPIPE, SIGXFSZ) stays
// pending and is dropped with the thread; the call fails with its error.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace forebay {

// Blocks all signals except SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP and SIGSYS in this thread, until destruction.
class SignalsBlocked {
  public:
    SignalsBlocked() noexcept;
    ~SignalsBlocked();
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

// Blocks SIGPIPE and SIGXFSZ in the calling thread until destruction, and then discards those that became pending. It
// guards a write of forebay in a thread of the program, to a pipe without a reader or a file that is too long.
class OwnWrite {
  public:
    OwnWrite() noexcept;
    ~OwnWrite();
    OwnWrite(const OwnWrite&) = delete;
    OwnWrite& operator=(const OwnWrite&) = delete;

  private:
    sigset_t before_, raised_;   // raised_: signals that were not pending before
};

// Starts a thread that calls `run` as std::jthread does, with a stop token if it takes one. Throws std::system_error.
template <class Run>
[[nodiscard]] std::jthread start_background_thread(Run&& run) {
    const SignalsBlocked blocked;
    return std::jthread(std::forward<Run>(run));
}

}   // namespace forebay
