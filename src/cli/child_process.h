// Running a program as a child that gets every signal we get.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::cli {

struct ChildEnd {
    int exit_status = 0;
    int signal = 0;   // that ended it; 0: it ended by itself
};

// Starts `program` (searched in PATH) with these arguments (the program's name first) and environment,
// waits for its end, and meanwhile forwards SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and
// SIGWINCH. A signal from the terminal is not forwarded: the kernel gave it to the child already.
// Blocks. To be called once, before other threads exist: it changes the signal mask. kNotFound and
// kPermissionDenied: there is no such program, or it cannot be executed.
// While the child runs `look` is called with its process number, soon after the start and then ever more rarely.
[[nodiscard]] Result<ChildEnd> run_child(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& environment,
                                         const std::function<void(pid_t)>& look = {});

}   // namespace forebay::cli
