// The subcommands of `forebay`. Each function adds one to the command line; what it does runs while the
// command line is parsed and leaves its exit status in `exit_status`, which outlives the parser.
#pragma once

#include <CLI/App.hpp>

namespace forebay::cli {

// Exit statuses, as documented in `forebay --help`.
inline constexpr int kExitFine = 0;
inline constexpr int kExitProblem = 1;   // what was asked about is not as it should be
inline constexpr int kExitUsage = 2;     // the command line, or an option's value
inline constexpr int kExitUnknown = 3;    // wait: nobody can tell
inline constexpr int kExitInternal = 70;
inline constexpr int kExitNotDrained = 74;       // run: staged bytes did not reach their file
inline constexpr int kExitNotExecutable = 126;   // run, as shells have it
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignal = 128;   // run: plus the signal's number

void add_run(CLI::App& app, int& exit_status);
void add_env(CLI::App& app, int& exit_status);
void add_doctor(CLI::App& app, int& exit_status);
void add_probe(CLI::App& app, int& exit_status);   // hidden: the child process of doctor
void add_status(CLI::App& app, int& exit_status);
void add_recover(CLI::App& app, int& exit_status);
void add_verify(CLI::App& app, int& exit_status);
void add_discard(CLI::App& app, int& exit_status);
void add_wait(CLI::App& app, int& exit_status);
void add_torture(CLI::App& app, int& exit_status);
void add_options(CLI::App& app, int& exit_status);

}   // namespace forebay::cli
