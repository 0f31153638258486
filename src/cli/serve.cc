// `forebay serve`: stages files for programs that name it with option server.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "area/staging_area.h"
#include "base/attempt.h"
#include "base/background_thread.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/end_signal.h"
#include "cli/launch.h"
#include "cli/staging_areas.h"
#include "io/socket.h"
#include "recover/recovery.h"
#include "server/server.h"
#include "wire/frame_seal.h"
#include "wire/key_file.h"

namespace forebay::cli {

namespace {

constexpr std::size_t kClientsMax = 16, kClientsMost = 4096;

struct ServeRequest {
    std::string listen;
    std::size_t clients_max = kClientsMax;
    std::vector<std::string> settings;
};

void say_ready(const std::string& where) {
    fmt::print("forebay serve: ready at {}\n", where);
    std::fflush(stdout);
}

int complain_of_serve(const std::string& what, int exit_status) {
    fmt::print(stderr, "forebay serve: {}\n", what);
    return exit_status;
}

// A failed write loses the line, and the server goes on.
void report(const std::string& line) {
    static std::mutex mutex;   // keeps the lines of sessions apart
    const std::lock_guard lock(mutex);
    const OwnWrite own;
    (void)attempt([&] {
        fmt::print(stderr, "forebay serve: {}\n", line);
        return Status::ok();
    });
}

// Each session needs descriptors for a socket, a file, and its log.
void allow_many_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<LoadedOptions> options_of(const ServeRequest& request) {
    Variables variables;
    for (const std::string& setting : request.settings) {
        const std::size_t equals = setting.find('=');
        const std::string name = setting.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : setting.substr(equals + 1);
        FOREBAY_TRY(check_option(name, value, "-o"));
        variables[option_variable(name)] = value;
    }
    LoadedOptions loaded = options_with(variables);
    if (!loaded.problems.empty()) return loaded.problems.front();
    return loaded;
}

// Reads and uses the key for other machines, so that a missing libsodium ends the start, not the first connection.
Result<wire::SealKey> usable_key(const Options& options) {
    const auto key = wire::read_or_make_key(wire::key_file(options.server_key));
    if (!key) return key;
    FOREBAY_TRY(wire::derive_keys(key.value(), key.value(), key.value()).status());
    return key;
}

std::string in_words(const recover::FileReport& file) {
    using recover::Outcome;
    switch (file.outcome) {
        case Outcome::kRecovered: return "it is at its last flush";
        case Outcome::kRolledBack: return "it was never flushed, and is as it was at its open";
        case Outcome::kComplete: return "it is complete";
        case Outcome::kDiscarded:
        case Outcome::kGone: return "it was deleted, and its log was removed";
        case Outcome::kRefused:
        case Outcome::kWaiting:
        case Outcome::kFailed: break;
    }
    const std::string todo = recover::advice(file);
    return file.status.message() + (todo.empty() ? "" : "; what to do: " + todo);
}

// Recovery leaves files with bytes in the staging area only, and directories that it cannot read.
struct Left {
    std::set<io::Identity> files;
    bool unread = false;
};

// Restores files of dead processes to their last flush, and returns the rest. Skips a file that a living process has
// locked. `whose` begins the report on each file.
Result<Left> recover_files(const area::StagingArea& area, std::string_view whose) {
    const auto outside = recover::Outside::real();
    if (!outside) return outside.status();
    std::array<io::Directory*, 1> areas{area.directory.get()};
    recover::Request what;
    what.unasked = true;
    what.patience = kPatience;
    const auto recovered = recover::recover(areas, what, outside.value());
    if (!recovered) return recovered.status();
    Left left;
    for (const recover::FileReport& file : recovered.value().files) {
        report(fmt::format("{}: {}; {}", file.path, whose, in_words(file)));
        if (!file.status) left.files.insert(file.identity);
    }
    for (const recover::DirectoryReport& directory : recovered.value().refused) {
        report(fmt::format("{}: left alone: {}", directory.path, directory.status.message()));
        left.unread = true;
    }
    return left;
}

// Makes one more attempt at the files `unrecovered`, after the last session: another process may have had them locked,
// or has recovered them since. Returns true if nothing is left.
bool recover_rest(const area::StagingArea& area, const std::set<io::Identity>& unrecovered) {
    const auto left = recover_files(area, "its log was left in the staging area");
    if (!left) report(left.status().message());
    if (left && !left.value().unread &&
        std::ranges::none_of(unrecovered, [&](const io::Identity& file) { return left.value().files.contains(file); }))
        return true;
    report(fmt::format("the server ends; {} may have bytes that are not in their files: run `forebay recover`",
                       area.root));
    return false;
}

int serve(server::Server::Setup setup, std::unique_ptr<io::Listener> listener, const area::StagingArea& area,
          EndSignal& end) {
    const std::string where = io::format_address(listener->address());
    const std::uint64_t patience = setup.options.options.patience;
    auto server = std::make_unique<server::Server>(std::move(setup), std::move(listener));
    say_ready(where);
    const Status served = server->run(end.number());
    if (!served) report(served.message());
    else end.take();
    report("ending: the server accepts no new clients, and waits for open files");
    if (!server->await_sessions()) {
        report(fmt::format("a program still reads a file through this server, and its read has not returned for {} "
                           "seconds: the server ends without it",
                           patience));
        (void)server.release();   // the thread of the read uses it until the process has ended
        return kExitProblem;
    }
    if (const auto cached = server->cached(); cached && cached->files > 0)
        report(fmt::format("other programs have read {} through the read cache, and {} of that from the files",
                           format_size(cached->hit_bytes + cached->missed_bytes), format_size(cached->fetched_bytes)));
    return recover_rest(area, server->unrecovered()) && served ? kExitFine : kExitProblem;
}

int run_server(const ServeRequest& request) {
    const auto address = io::parse_address(request.listen);
    if (!address) return complain_of_serve("--listen: " + address.status().message(), kExitUsage);
    const auto loaded = options_of(request);
    if (!loaded) return complain_of_serve(loaded.status().message(), exit_status(loaded.status()));
    std::optional<wire::SealKey> key;
    if (!address.value().is_local()) {
        const auto usable = usable_key(loaded.value().options);
        if (!usable)
            return complain_of_serve("--listen " + request.listen + ": " + usable.status().message(), kExitProblem);
        key = usable.value();
    }
    EndSignal end;   // before any thread, because threads inherit blocked signals
    allow_many_descriptors();
    auto listener = io::Listener::open(address.value());
    if (!listener) return complain_of_serve(listener.status().message(), kExitProblem);
    // This comes after the listener: if the address is in use, the staging area belongs to that server.
    auto area = area::enter_staging_area(loaded.value());
    if (!area) return complain_of_serve(area.status().message(), kExitUsage);
    auto left = recover_files(area.value(), "an earlier process staged it");   // before any client connects
    if (!left) return complain_of_serve(left.status().message(), kExitProblem);
    // Recovery may have made room. Clients may wait for a server even if it has none: their logs may fill the device.
    const Status room = area::measure_space(area.value(), loaded.value());
    if (!room && room.code() != Code::kNoSpace) return complain_of_serve(room.message(), kExitUsage);
    if (!room) report(room.message() + "; until there is room, programs write their files without the server");
    server::Server::Setup setup{loaded.value(), request.clients_max, report, key};
    setup.unrecovered = std::move(left.value().files);
    return serve(std::move(setup), std::move(listener).value(), area.value(), end);
}

}   // namespace

void add_serve(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("serve", "Stage files for programs that name this server (option server)");
    auto request = std::make_shared<ServeRequest>();
    command->add_option("--listen", request->listen, "The address of the server: unix:PATH, or HOST:PORT")
        ->type_name("ADDRESS")
        ->required();
    auto settings = std::shared_ptr<std::vector<std::string>>(request, &request->settings);
    // This option comes first, because it replaces the list that the others append to.
    command->add_option("-o,--option", request->settings, "Set an option of the server; may be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    add_nls_option(*command, settings);
    command
        ->add_option_function<std::string>(
            "--size", [settings](const std::string& size) { settings->push_back("size=" + size); },
            "Maximum size of all logs together")
        ->type_name("SIZE");
    command
        ->add_option(
            "--clients-max", request->clients_max,
            "Maximum number of clients that write at a time. Each file that a rank writes counts as one, and has "
            "its part of the space")
        ->type_name("N")
        ->check(CLI::Range(std::size_t{1}, kClientsMost).description(""))
        ->capture_default_str();
    command->footer(
        "The server accepts programs of its own user, on this machine and on others that have its key (option "
        "server_key). After SIGTERM it refuses new programs, waits until the files open for writing are closed, and "
        "ends. A second SIGTERM ends it at once. Then the next server in the same staging area, or `forebay recover`, "
        "recovers the flushed bytes.\n\n" +
        exit_statuses({{"0", "the server ended after a signal, and all files are complete"},
                       {"1", "the server failed, or bytes may be left in its staging area; it says why"},
                       {"2", "the command line or an option is wrong"}}));
    command->callback([request, &exit_status] { exit_status = run_server(*request); });
}

}   // namespace forebay::cli
