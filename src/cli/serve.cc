// `forebay serve`: stages files for programs that name it with option server.
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "area/staging_area.h"
#include "base/attempt.h"
#include "base/background_thread.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/end_signal.h"
#include "cli/launch.h"
#include "cli/recover_view.h"
#include "cli/staging_areas.h"
#include "io/socket.h"
#include "recover/recovery.h"
#include "server/server.h"
#include "server/user_servers.h"
#include "wire/credentials.h"
#include "wire/frame_seal.h"

namespace forebay::cli {

namespace {

constexpr std::size_t kClientsMax = 16, kClientsMost = 4096;

struct Request {
    std::string listen;
    std::optional<std::string> users;   // none: the server's own
    std::size_t clients_max = kClientsMax;
    std::vector<std::string> settings;
};

void say_ready(const std::string& where) {
    fmt::print("forebay serve: ready at {}\n", where);
    std::fflush(stdout);
}

int complain(const std::string& what, int exit_status) {
    fmt::print(stderr, "forebay serve: {}\n", what);
    return exit_status;
}

// What cannot be written is lost, and ends nobody.
void report(const std::string& line) {
    static std::mutex mutex;   // lines of several sessions stay apart
    const std::lock_guard lock(mutex);
    const OwnWrite own;
    (void)attempt([&] {
        fmt::print(stderr, "forebay serve: {}\n", line);
        return Status::ok();
    });
}

// Each session has a socket, a file, and what its log takes.
void allow_many_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<LoadedOptions> options_of(const Request& request) {
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

// What clients on other machines prove with. It is tried out, so that nobody has to find out later.
Result<std::shared_ptr<wire::Credentials>> usable_credentials() {
    auto credentials = wire::munge_credentials();
    if (!credentials) return credentials;
    const auto secret = wire::new_secret();
    if (!secret) return secret.status();
    FOREBAY_TRY(wire::derive_keys(secret.value(), secret.value()).status());
    const auto made = credentials.value()->make(secret.value(), ::geteuid());
    if (!made) return made.status();
    const auto read = credentials.value()->read(made.value());
    if (!read) return read.status();
    return credentials;
}

// Files that an earlier server, or another dead process, has staged here are as at their last flush before any client
// comes. What is locked by a living client is recovered when that opens it again.
Status recover_earlier(const area::StagingArea& area) {
    const auto outside = recover::Outside::real();
    if (!outside) return outside.status();
    std::array<io::Directory*, 1> areas{area.directory.get()};
    recover::Request what;
    what.unasked = true;
    const auto recovered = recover::recover(areas, what, outside.value());
    if (!recovered) return recovered.status();
    for (const recover::FileReport& file : recovered.value().files)
        report(fmt::format("{}: an earlier process had staged it; {}", file.path,
                           file.status.is_ok() ? "it is at its last flush" : file.status.message()));
    return Status::ok();
}

int serve(const Request& request, const LoadedOptions& loaded, std::unique_ptr<io::Listener> listener,
          std::shared_ptr<wire::Credentials> credentials, EndSignal& end, bool says_ready) {
    const std::string where = io::format_address(listener->address());
    server::Server server({loaded, request.clients_max, report, std::move(credentials)}, std::move(listener));
    if (says_ready) say_ready(where);
    const Status served = server.run(end.number());
    if (!served) report(served.message());
    else end.take();
    if (says_ready) report("ending: nobody is admitted any more, and open files are waited for");
    server.await_sessions();
    if (const auto cached = server.cached(); cached && cached->files > 0)
        report(fmt::format("programs elsewhere have read {} through the read cache, and {} of that from the files",
                           format_size(cached->hit_bytes + cached->missed_bytes), format_size(cached->fetched_bytes)));
    return served ? kExitFine : kExitProblem;
}

// Each user has a process, which has that user's options and staging area.
Result<server::UserServers::Serve> prepare(const Request& request, bool for_other_machines, EndSignal& end) {
    auto loaded = options_of(request);
    if (!loaded) return loaded.status();
    const auto area = area::open_staging_area(loaded.value());
    if (!area) return area.status();
    std::shared_ptr<wire::Credentials> credentials;
    if (for_other_machines) {
        auto found = wire::munge_credentials();
        if (!found) return found.status();
        credentials = std::move(found).value();
    }
    FOREBAY_TRY(recover_earlier(area.value()));
    return server::UserServers::Serve([&request, &end, own = std::move(loaded).value(), credentials](auto passed) {
        return serve(request, own, std::move(passed), credentials, end, false);
    });
}

// Only programs ask a server's cache that have one themselves: in the same directory, which no server makes for them
// before they ask.
bool allows_staging_areas(const std::string& nls) {
    std::error_code failed;
    const auto mode = std::filesystem::status(nls, failed).permissions();
    return !failed && (mode & std::filesystem::perms::others_write) != std::filesystem::perms::none;
}

int run_for_users(const Request& request, const io::Address& address) {
    if (::geteuid() != 0) return complain("--users: only root can serve other users", kExitUsage);
    auto users = server::parse_users(*request.users);
    if (!users) return complain("--users: " + users.status().message(), kExitUsage);
    const auto loaded = options_of(request);
    if (!loaded) return complain(loaded.status().message(), exit_status(loaded.status()));
    const Options& options = loaded.value().options;
    if (options.read_cache && !allows_staging_areas(options.nls))
        return complain(fmt::format("--users with read_cache=on: {} has to be a directory in which all may make their "
                                    "staging areas (chmod 1777)",
                                    options.nls),
                        kExitUsage);
    EndSignal end;
    allow_many_descriptors();
    auto listener = io::Listener::open(address, io::Listener::Admits::kEverybody);
    if (!listener) return complain(listener.status().message(), kExitProblem);
    const bool for_other_machines = !address.is_local();
    server::UserServers servers({.users = std::move(users).value(),
                                 .nls = options.nls,
                                 .prepare = [&] { return prepare(request, for_other_machines, end); },
                                 .credentials = for_other_machines ? &usable_credentials : nullptr,
                                 .report = report});
    if (for_other_machines)
        if (const Status able = servers.try_identifying(*listener.value()); !able)
            return complain("--listen " + request.listen + ": " + able.message(), kExitProblem);
    say_ready(io::format_address(listener.value()->address()));
    const Status served = servers.run(*listener.value(), end.number());
    listener.value().reset();   // nobody waits for an answer while the users' processes end
    if (!served) report(served.message());
    else end.take();
    report("ending: nobody is admitted any more, and open files are waited for");
    return served ? kExitFine : kExitProblem;
}

int run(const Request& request) {
    const auto address = io::parse_address(request.listen);
    if (!address) return complain("--listen: " + address.status().message(), kExitUsage);
    if (request.users) return run_for_users(request, address.value());
    std::shared_ptr<wire::Credentials> credentials;
    if (!address.value().is_local()) {
        auto usable = usable_credentials();
        if (!usable) return complain("--listen " + request.listen + ": " + usable.status().message(), kExitProblem);
        credentials = std::move(usable).value();
    }
    const auto loaded = options_of(request);
    if (!loaded) return complain(loaded.status().message(), exit_status(loaded.status()));
    EndSignal end;   // before any thread, which inherits what is blocked
    allow_many_descriptors();
    auto listener = io::Listener::open(address.value());
    if (!listener) return complain(listener.status().message(), kExitProblem);
    // After the listener: whoever finds the address taken leaves that server's staging area alone.
    const auto area = area::open_staging_area(loaded.value());
    if (!area) return complain(area.status().message(), kExitUsage);
    if (const Status recovered = recover_earlier(area.value()); !recovered)
        return complain(recovered.message(), kExitProblem);
    return serve(request, loaded.value(), std::move(listener).value(), std::move(credentials), end, true);
}

}   // namespace

void add_serve(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("serve", "Stage files for programs that name this server (option server)");
    auto request = std::make_shared<Request>();
    command
        ->add_option("--listen", request->listen,
                     "Where programs find it: unix:PATH, or HOST:PORT; other machines than this one need MUNGE")
        ->type_name("ADDRESS")
        ->required();
    auto settings = std::shared_ptr<std::vector<std::string>>(request, &request->settings);
    // Before those that add to the same list: what is given to this one replaces the list.
    command->add_option("-o,--option", request->settings, "Set an option of the server; may be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    command
        ->add_option_function<std::string>(
            "--users", [request](const std::string& users) { request->users = users; },
            "Serve these users (names with commas, or 'all'), each by a process with their rights and a staging area "
            "of its own; for root")
        ->type_name("USERS");
    add_nls_option(*command, settings);
    command
        ->add_option_function<std::string>(
            "--size", [settings](const std::string& size) { settings->push_back("size=" + size); },
            "Most space that all logs together take there")
        ->type_name("SIZE");
    command
        ->add_option(
            "--clients-max", request->clients_max,
            "Most clients that write at a time: each file that a rank writes is one, and has its part of the space")
        ->type_name("N")
        ->check(CLI::Range(std::size_t{1}, kClientsMost).description(""))
        ->capture_default_str();
    command->footer(
        "It serves programs of its own user: on this machine, and on others with MUNGE; root's may serve\n"
        "other users (--users). SIGTERM: it admits nobody any more, waits until the files that are written are\n"
        "closed, and ends. A second one ends it at once; what was flushed is recovered by the next server\n"
        "in the same staging area, or by `forebay recover`.\n\n" +
        exit_statuses({{"0", "it was told to end, and all files are whole"},
                       {"1", "it could not serve, and says why"},
                       {"2", "the command line or an option is wrong"}}));
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
