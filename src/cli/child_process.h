// Runs a program as a child and forwards all signals to it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::cli {

struct ChildEnd {
    int exit_status = 0;
    int signal = 0;   // that ended the child; 0 if it exited
};

// Starts `program` (searched in PATH) with these arguments (the program's name first) and environment, and waits for
// its end. Meanwhile forwards SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH. Does not forward a
// signal from the terminal, because the kernel sends it to the child too. Blocks. Call it once, before other threads
// exist, because it changes the signal mask. kNotFound and kPermissionDenied: the program does not exist, or it is not
// executable. While the child runs, calls `look` with the child's process number, at growing intervals.
[[nodiscard]] Result<ChildEnd> run_child(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& environment,
                                         const std::function<void(pid_t)>& look = {});

}   // namespace forebay::cli
