// The subcommands of `forebay`. Each function adds one to the command line. The parser runs the subcommand, which
// stores its exit status in `exit_status`. That variable must outlive the parser.
#pragma once

#include <CLI/App.hpp>

#include "cli/exit_status.h"

namespace forebay::cli {

void add_run(CLI::App& app, int& exit_status);
void add_env(CLI::App& app, int& exit_status);
void add_doctor(CLI::App& app, int& exit_status);
void add_probe(CLI::App& app, int& exit_status);   // hidden: the child process of doctor
void add_status(CLI::App& app, int& exit_status);
void add_recover(CLI::App& app, int& exit_status);
void add_verify(CLI::App& app, int& exit_status);
void add_discard(CLI::App& app, int& exit_status);
void add_cache(CLI::App& app, int& exit_status);
void add_wait(CLI::App& app, int& exit_status);
void add_drain(CLI::App& app, int& exit_status);
void add_serve(CLI::App& app, int& exit_status);
void add_follow(CLI::App& app, int& exit_status);
void add_estimate(CLI::App& app, int& exit_status);
void add_torture(CLI::App& app, int& exit_status);
void add_options(CLI::App& app, int& exit_status);

}   // namespace forebay::cli
