// `forebay follow`: prints one line for each commit of a file that a program writes through a staging server.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "base/options.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/end_signal.h"
#include "cli/launch.h"
#include "cli/shown.h"
#include "io/posix_file.h"
#include "io/socket.h"
#include "wire/commit_stream.h"
#include "wire/home_server.h"

namespace forebay::cli {

namespace {

using Writer = wire::Commits::Writer;

struct FollowRequest {
    std::string file;
    std::string server;
    std::uint64_t count = 0;   // 0 means no limit
    bool json = false;
};

int complain_of_follow(const std::string& what, int exit_status) {
    fmt::print(stderr, "forebay follow: {}\n", what);
    return exit_status;
}

void print(const wire::Commit& commit, bool json) {
    if (json) {
        const nlohmann::ordered_json line{
            {"commit", commit.number}, {"time_ns", commit.time_ns}, {"bytes", commit.bytes}, {"size", commit.size}};
        fmt::print("{}\n", line.dump());
    } else {
        fmt::print("{:>6}  {}  {:>10}\n", commit.number, local_time(commit.time_ns), format_size(commit.bytes));
    }
    std::fflush(stdout);   // a reader acts on each line
}

int follow(wire::CommitStream& stream, const FollowRequest& request, const EndSignal& end) {
    std::uint64_t printed = 0;
    for (;;) {
        const auto news = stream.next(end.number());
        if (!news)
            return complain_of_follow("the staging server does not answer any more: " + news.status().message(),
                                      kExitProblem);
        if (!news.value()) return kExitFine;
        const wire::Commits& commits = *news.value();
        if (commits.missed > 0)
            complain_of_follow(fmt::format("{} earlier commits are not known any more", commits.missed), kExitFine);
        for (const wire::Commit& commit : commits.commits) {
            print(commit, request.json);
            if (++printed == request.count) return kExitFine;
        }
        if (commits.writer == Writer::kClosed) return kExitFine;
        if (commits.writer == Writer::kGone)
            return complain_of_follow(
                request.file + ": its writer ended without closing it; the file is at its last flush", kExitProblem);
    }
}

int run_follow(const FollowRequest& request) {
    const LoadedOptions loaded = options_with({});
    for (const Status& problem : loaded.problems) return complain_of_follow(problem.message(), kExitUsage);
    const std::string& named = request.server.empty() ? loaded.options.server : request.server;
    if (named.empty()) return complain_of_follow("name a staging server with --server or option server", kExitUsage);
    std::error_code failed;
    const std::string path = std::filesystem::absolute(request.file, failed).string();
    const auto identity = io::identify(path);
    if (!identity) return complain_of_follow(identity.status().message(), kExitUsage);
    const auto home = wire::home_server(named, identity.value().inode);
    auto address = home ? io::parse_address(home.value()) : Result<io::Address>(home.status());
    if (!address) return complain_of_follow(address.status().message(), kExitUsage);
    address.value().key_file = loaded.options.server_key;
    auto stream = wire::CommitStream::open(address.value(), path, identity.value(), loaded.options.patience);
    if (!stream) return complain_of_follow(stream.status().message(), kExitProblem);
    const EndSignal end;   // created late, so that a signal ends the setup by default
    return follow(stream.value(), request, end);
}

}   // namespace

void add_follow(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("follow",
                                           "Print each flush of a file that a program writes through a staging server");
    auto request = std::make_shared<FollowRequest>();
    command->add_option("FILE", request->file, "The file")->required();
    command->add_option("--server", request->server, "The server; default: that of option server")
        ->type_name("ADDRESS");
    const CLI::Validator positive(
        [](const std::string& text) {
            const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            const bool some = text.find_first_not_of('0') != std::string::npos;
            return digits && some ? std::string() : fmt::format("{} is not a positive number", text);
        },
        "");
    command->add_option("--count", request->count, "End after this number of flushes")->type_name("N")->check(positive);
    command->add_flag("--json", request->json, "Print one JSON object per flush: commit, time_ns, bytes, size");
    command->footer(
        "Prints one line for each flush since the program opened the file: its number, its time, and the bytes "
        "written since the flush before. A program that opens the file with option server reads the last flush.\n\n" +
        exit_statuses({{"0",
                        "the file was closed, --count is reached, or a signal ended the command (SIGINT, SIGTERM)"},
                       {"1", "no client of the server writes the file, the writer died, or the server does not answer"},
                       {"2", "the command line or an option is wrong, or the file does not exist"}}));
    command->callback([request, &exit_status] { exit_status = run_follow(*request); });
}

}   // namespace forebay::cli
