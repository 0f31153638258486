// The one way in which forebay starts a thread.
//
// A thread inherits the signal mask of the thread that starts it, and the system hands a signal of the process to any
// thread that does not block it. A program that blocks a signal in its own threads, to ask for it or to wait for it,
// would be ended by it in one of ours. So our threads block every signal but those that an instruction of their own
// raises. What a system call of such a thread raises for that thread only (SIGPIPE, SIGXFSZ) stays pending and ends
// with it; the call fails with its error.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace forebay {

// Blocks, in the calling thread and until it is destroyed, all signals but SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP and
// SIGSYS.
class SignalsBlocked {
  public:
    SignalsBlocked() noexcept;
    ~SignalsBlocked();
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

// For a write of forebay's own in a thread of the program, to a pipe that nobody reads or a file that has become too
// long: SIGPIPE and SIGXFSZ, which come with the failure, are not the program's. They are blocked until this is
// destroyed, and taken back then.
class OwnWrite {
  public:
    OwnWrite() noexcept;
    ~OwnWrite();
    OwnWrite(const OwnWrite&) = delete;
    OwnWrite& operator=(const OwnWrite&) = delete;

  private:
    sigset_t before_, raised_;   // raised_: those that were not pending before
};

// Throws std::system_error if no thread can be had. `run` is called as std::jthread calls it, with a stop token if it
// takes one.
template <class Run>
[[nodiscard]] std::jthread start_background_thread(Run&& run) {
    const SignalsBlocked blocked;   // the new thread inherits it
    return std::jthread(std::forward<Run>(run));
}

}   // namespace forebay
