#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

#include "cli/build_facts.h"
#include "cli/command_line.h"
#include "cli/commands.h"

namespace {

const std::string kFooter = "For one program:    forebay run -- ./simulation input.nml\n"
                            "For this shell:     eval \"$(forebay env)\"\n"
                            "Check this node:    forebay doctor\n"
                            "After a crash:      forebay recover\n\n"
                            "Help on a command:  forebay help run\n\n";

int run_command_line(int argc, char** argv) {
    using namespace forebay::cli;
    CLI::App app{"Node-local staging for HDF5: programs write at node-local speed, and forebay drains the bytes to the "
                 "files in the background.",
                 "forebay"};
    set_up_help(app);
    app.set_version_flag("-V,--version", fmt::format("forebay {}", kVersion));
    app.footer(kFooter +
               exit_statuses({{"0", "success"},
                              {"1", "a problem was found"},
                              {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                              {"3", "a directory could not be read, so the result may be incomplete"}}) +
               "forebay run and forebay status --check have other exit statuses: see their --help.\n");
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
    add_serve(app, exit_status);
    add_follow(app, exit_status);
    add_estimate(app, exit_status);
    add_torture(app, exit_status);
    add_options(app, exit_status);
    add_probe(app, exit_status);
    app.add_subcommand("help", "Show the help of a command: forebay help COMMAND");
    const int parsed = parse_command_line(app, argc, argv);
    return parsed != kExitFine ? parsed : exit_status;
}

}   // namespace

int main(int argc, char** argv) {
    forebay::cli::fill_standard_descriptors();
    try {
        return forebay::cli::finish_output("forebay", run_command_line(argc, argv));
    } catch (const std::system_error& error) {
        errno = error.code().value();
        if (std::ferror(stdout) != 0) return forebay::cli::finish_output("forebay", forebay::cli::kExitFine);
        if (std::ferror(stderr) != 0) return forebay::cli::kExitProblem;   // no message can be printed
        std::fprintf(stderr, "forebay: internal error: %s\n", error.what());
        return forebay::cli::kExitInternal;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "forebay: internal error: %s\n", error.what());
        return forebay::cli::kExitInternal;
    }
}
