// Killing a process at the Nth of its write calls, with the help of strace where it is there and may trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "torture/ground.h"

namespace forebay::torture {

// The calls that count: everything that changes a file's bytes or its size, and what a process tells of its commits.
inline constexpr const char* kWriteCalls = "pwrite64,pwritev,pwritev2,write,writev,ftruncate,fallocate";

struct Strace {
    std::vector<std::string> command;   // up to "-e", to be followed by inject=… and the program
    std::string why_not;                // it cannot be used; empty: it can
};
// Tries it on this executable, within `patience_ns` nanoseconds.
[[nodiscard]] Result<Strace> find_working_strace(Ground& ground, std::uint64_t patience_ns);

}   // namespace forebay::torture
