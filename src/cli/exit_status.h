// Exit statuses of `forebay` and `forebay-torture`, as documented in `forebay --help`.
#pragma once

namespace forebay::cli {

inline constexpr int kExitFine = 0;
inline constexpr int kExitProblem = 1;   // a check failed
inline constexpr int kExitUsage = 2;     // wrong command line or option value
inline constexpr int kExitUnknown = 3;   // unknown: a directory or file could not be read
inline constexpr int kExitAtWork = 4;    // status --check: the drain of staged bytes goes on
inline constexpr int kExitInternal = 70;
inline constexpr int kExitNotDrained = 74;       // run: staged bytes did not reach their file
inline constexpr int kExitNotExecutable = 126;   // run: as in shells
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignal = 128;   // run: plus the signal's number

}   // namespace forebay::cli
