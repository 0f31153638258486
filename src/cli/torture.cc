// `forebay torture`: runs the program `forebay-torture` beside this executable.
#include <fmt/format.h>
#include <unistd.h>

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

int hand_over(const std::vector<std::string>& arguments) {
    const auto own = own_path();
    if (!own) {
        fmt::print(stderr, "forebay torture: {}\n", own.status().message());
        return kExitNotFound;
    }
    std::string program = std::filesystem::path(own.value()).replace_filename("forebay-torture").string();
    std::vector<std::string> words{program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    ::execv(program.c_str(), pointers.data());
    const int error = errno;
    fmt::print(stderr, "forebay torture: {}\n", Status::from_errno(error, "execute " + program).message());
    return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}   // namespace

void add_torture(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand(
        "torture", "Kill programs on this storage, make their calls fail, and check their files after each recovery");
    // That program parses all further arguments, --help too.
    command->set_help_flag();
    command->prefix_command();
    command->callback([command, &exit_status] { exit_status = hand_over(command->remaining()); });
}

}   // namespace forebay::cli
