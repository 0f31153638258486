// Kills a process at the Nth of its write calls, with strace if it is installed and may trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "torture/ground.h"

namespace forebay::torture {

// The counted calls: those that change a file's bytes or size, and the reports of commits.
inline constexpr const char* kWriteCalls = "pwrite64,pwritev,pwritev2,write,writev,ftruncate,fallocate";

struct Strace {
    std::vector<std::string> command;   // up to "-e"; inject=… and the program follow
    std::string why_not;                // why strace is unusable; empty if it works
};
// Tries it on this executable, within `patience_ns` nanoseconds.
[[nodiscard]] Result<Strace> find_working_strace(Ground& ground, std::uint64_t patience_ns);

}   // namespace forebay::torture
