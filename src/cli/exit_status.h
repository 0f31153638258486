// Exit statuses of `forebay` and `forebay-torture`, as documented in `forebay --help`.
#pragma once

namespace forebay::cli {

inline constexpr int kExitFine = 0;
inline constexpr int kExitProblem = 1;   // what was asked about is not as it should be
inline constexpr int kExitUsage = 2;     // the command line, or an option's value
inline constexpr int kExitUnknown = 3;   // nobody can tell: something could not be looked into
inline constexpr int kExitAtWork = 4;    // status --check: staged bytes are on their way
inline constexpr int kExitInternal = 70;
inline constexpr int kExitNotDrained = 74;       // run: staged bytes did not reach their file
inline constexpr int kExitNotExecutable = 126;   // run, as shells have it
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignal = 128;   // run: plus the signal's number

}   // namespace forebay::cli
