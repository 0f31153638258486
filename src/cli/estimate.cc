// `forebay estimate`: runs the module forebay.estimate of the Python package beside this executable.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"
#include "cli/launch.h"

namespace forebay::cli {

namespace {

constexpr const char* kPython = "python3";
constexpr const char* kSummary =
    "How long a program would wait for its file, natively and with forebay, on this or another "
    "machine";
// No module is taken from the working directory. The package's folder leaves the search path before the module loads
// anything else, since packages beside it may be those of another Python.
constexpr const char* kRunModule = "import sys\n"
                                   "sys.path = [sys.argv.pop(1), *filter(None, sys.path)]\n"
                                   "import forebay.estimate\n"
                                   "del sys.path[0]\n"
                                   "sys.exit(forebay.estimate.main(sys.argv[1:]))\n";

int run_module(const std::vector<std::string>& arguments) {
    const auto package = python_package_folder();
    if (!package && std::ranges::any_of(arguments, [](const std::string& word) { return word == "--help"; })) {
        fmt::print(
            "{}\n\nUsage: forebay estimate [options]\n\nThe command needs forebay's Python package, whose help lists "
            "all options.\n",
            kSummary);
        return 0;
    }
    if (!package) {
        fmt::print(stderr, "forebay estimate: find the Python package: this installation has none\n");
        return kExitNotFound;
    }
    std::vector<std::string> words{kPython, "-c", kRunModule, std::filesystem::path(*package).parent_path().string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ::execvp(kPython, pointers.data());
    const int error = errno;
    fmt::print(stderr, "forebay estimate: {}\n",
               Status::from_errno(error, std::string("execute ") + kPython).message());
    return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}   // namespace

void add_estimate(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("estimate", kSummary);
    // The module parses all further arguments, --help too.
    command->set_help_flag();
    command->prefix_command();
    command->callback([command, &exit_status] { exit_status = run_module(command->remaining()); });
}

}   // namespace forebay::cli
