// The command: slowfs BACKING MOUNTPOINT. See tools/slowfs/README.md.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "control.h"
#include "mount.h"

namespace forebay::slowfs {

namespace {

constexpr char kReadyLine[] = "ready\n";

struct CommandLine {
    std::string backing;
    MountOptions mount;
    FileSystemOptions file_system;
    std::vector<std::string> control_lines;
    bool daemonize = false;
    bool no_locks = false;
};

void describe(CLI::App& app, CommandLine& command) {
    const auto line = [&](const std::string& word) {
        return [&command, word](const std::vector<std::string>& values) {
            for (const std::string& value : values) command.control_lines.push_back(word + " " + value);
            return true;
        };
    };
    app.add_option("backing", command.backing, "Directory that holds the files")->required()->type_name("BACKING");
    app.add_option("mount_point", command.mount.mount_point, "Existing directory to mount on")
        ->required()
        ->type_name("MOUNTPOINT");
    app.add_option("--bandwidth", line("bandwidth"), "Shared by all reads and writes")->type_name("200MiB/s");
    app.add_option("--read-bandwidth", line("read-bandwidth"), "Shared by all reads")->type_name("200MiB/s");
    app.add_option("--write-bandwidth", line("write-bandwidth"), "Shared by all writes")->type_name("200MiB/s");
    app.add_option("--thread-bandwidth", line("thread-bandwidth"), "Of each thread by itself")->type_name("200MiB/s");
    app.add_option("--process-bandwidth", line("process-bandwidth"), "Of each process by itself")
        ->type_name("200MiB/s");
    app.add_option("--latency", line("latency"), "Added to each operation, or to those named; repeatable")
        ->type_name("[OPS=]0.5ms")
        ->expected(1)
        ->take_all();
    app.add_option("--fault", line("fault"),
                   "Make operations fail, e.g. op=write,errno=EIO,after=3,count=1; repeatable")
        ->type_name("RULE")
        ->expected(1)
        ->take_all();
    app.add_option("--threads", command.mount.threads_max, "Operations that can be in flight")
        ->capture_default_str()
        ->check(CLI::Range(1, 4096));
    app.add_flag("--page-cache", command.file_system.page_cache,
                 "Go through the kernel's page cache: reads are cached, mmap(MAP_SHARED) works");
    app.add_option("--clock-behind", command.file_system.clock_behind_s,
                   "Tell times as a server does whose clock is so much behind")
        ->type_name("SECONDS")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000'000}));
    app.add_flag("--no-locks", command.no_locks, "Let flock and fcntl locks fail with ENOSYS");
    app.add_flag("--allow-other", command.mount.allow_other, "Let other users use the mount");
    app.add_flag("--end-with-stdin", command.mount.end_with_stdin, "Unmount when standard input ends");
    app.add_flag("--daemonize", command.daemonize, "Return once mounted, and serve in the background");
    app.add_flag_callback("-f,--foreground", [] {}, "Stay in the foreground (the default)");
}

int complain(const Status& status) {
    std::fprintf(stderr, "slowfs: %s\n", status.message().c_str());
    return EXIT_FAILURE;
}

// A relative path would be wrong in the background process.
Status make_absolute(std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
    if (!resolved) return Status::from_errno(errno, "find " + path);
    path = resolved.get();
    return Status::ok();
}

void announce(int fd) { (void)!::write(fd, kReadyLine, sizeof kReadyLine - 1); }

// The parent prints the child's ready line or failure, and never returns. The child gets the descriptor for that line.
int go_to_background() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::exit(complain(Status::from_errno(errno, "make a pipe")));
    const pid_t child = ::fork();
    if (child < 0) std::exit(complain(Status::from_errno(errno, "fork")));
    if (child > 0) {
        ::close(ends[1]);
        char first = 0;
        if (::read(ends[0], &first, 1) == 1) {
            announce(STDOUT_FILENO);
            ::_exit(EXIT_SUCCESS);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        ::_exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : EXIT_FAILURE);
    }
    ::close(ends[0]);
    ::setsid();
    return ends[1];
}

void let_go_of_terminal() {
    (void)!::chdir("/");
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
    ::close(null);
}

int run(CommandLine& command) {
    Simulation simulation;
    for (const std::string& line : command.control_lines) {
        if (Status status = execute(simulation, line); !status) return complain(status);
    }
    if (Status status = check_mountable(command.mount.mount_point); !status) return complain(status);
    if (Status status = make_absolute(command.mount.mount_point); !status) return complain(status);
    auto fs = FileSystem::open(command.backing, simulation, command.file_system);
    if (!fs) return complain(fs.status());

    const int ready_fd = command.daemonize ? go_to_background() : STDOUT_FILENO;
    const Status status = serve(*fs.value(), command.mount, [&] {
        announce(ready_fd);
        if (!command.daemonize) return;
        ::close(ready_fd);
        let_go_of_terminal();
    });
    return status ? EXIT_SUCCESS : complain(status);
}

}   // namespace

}   // namespace forebay::slowfs

int main(int argc, char** argv) {
    CLI::App app("A pass-through mount that is as slow and as faulty as it is told to be.", "slowfs");
    forebay::slowfs::CommandLine command;
    forebay::slowfs::describe(app, command);
    CLI11_PARSE(app, argc, argv);
    command.file_system.locks = !command.no_locks;
    if (command.daemonize && command.mount.end_with_stdin) {
        std::fprintf(stderr, "slowfs: --daemonize and --end-with-stdin exclude each other\n");
        return EXIT_FAILURE;
    }
    return forebay::slowfs::run(command);
}
