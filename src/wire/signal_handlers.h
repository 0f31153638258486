// Handlers of signals, which are the program's: a library that is loaded may not take them.
//
// Debian's libfabric brings libinfinipath, which takes SIGINT, SIGTERM and those of faults when it is loaded.
// Thread-safety: any thread; a handler that another thread sets meanwhile stays. Nothing blocks.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <vector>

#include "base/background_thread.h"

namespace forebay::wire {

// Gives handlers that lie in what was loaded since then back to those that had the signals, when it is destroyed. Until
// then this thread takes no signal.
class SignalHandlersKept {
  public:
    SignalHandlersKept();
    ~SignalHandlersKept();
    SignalHandlersKept(const SignalHandlersKept&) = delete;
    SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

  private:
    const SignalsBlocked blocked_;
    std::array<struct sigaction, NSIG> before_{};
    std::vector<std::uintptr_t> loaded_;   // where each object begins
};

}   // namespace forebay::wire
