// The `forebay` command.
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <exception>

#include "cli/build_facts.h"
#include "cli/commands.h"

namespace {

constexpr const char* kFooter =
    "\nFor one program:    forebay run -- ./simulation input.nml\n"
    "For this shell:     eval \"$(forebay env)\"\n"
    "Is all well here?   forebay doctor\n"
    "After a crash:      forebay recover\n\n"
    "Exit status: 0 all is well; 1 something is not as it should be; 2 the command line or an option is wrong;\n"
    "3 nobody can tell, as something could not be looked into.\n"
    "forebay run and forebay status --check have their own: see their --help.\n";

int run_command_line(int argc, char** argv) {
    using namespace forebay::cli;
    CLI::App app{
        "Node-local staging for HDF5: programs write at node-local speed, the bytes drain to the file behind their "
        "back.",
        "forebay"};
    app.set_version_flag("--version", fmt::format("forebay {}", kVersion));
    app.footer(kFooter);
    app.require_subcommand(1);
    int exit_status = kExitFine;
    add_run(app, exit_status);
    add_env(app, exit_status);
    add_doctor(app, exit_status);
    add_status(app, exit_status);
    add_recover(app, exit_status);
    add_verify(app, exit_status);
    add_discard(app, exit_status);
    add_wait(app, exit_status);
    add_drain(app, exit_status);
    add_cache(app, exit_status);
    add_torture(app, exit_status);
    add_options(app, exit_status);
    add_probe(app, exit_status);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        // Help and version are reported this way too; anything else is one line, then where to read on.
        return app.exit(error) == 0 ? kExitFine : kExitUsage;
    }
    return exit_status;
}

}   // namespace

int main(int argc, char** argv) {
    try {
        return run_command_line(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "forebay: internal error: %s\n", error.what());
        return forebay::cli::kExitInternal;
    }
}
