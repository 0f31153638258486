#include "cli/child_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace forebay::cli {

namespace {

constexpr int kFirstLookMs = 2, kLastLookMs = 8192;

constexpr std::array kForwardedSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    // posix_spawn takes char* const[] for historical reasons. It changes no string.
    for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
    result.push_back(nullptr);
    return result;
}

Result<pid_t> spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                    const sigset_t& mask) {
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &mask);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = -1;
    const int error = ::posix_spawnp(&child, arguments.front().c_str(), nullptr, &attributes,
                                     pointers(arguments).data(), pointers(environment).data());
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0) return Status::from_errno(error, fmt::format("start {}", arguments.front()));
    return child;
}

bool reap(pid_t child, ChildEnd& end) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) != child) return false;
    if (WIFEXITED(status)) end.exit_status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    return WIFEXITED(status) || WIFSIGNALED(status);
}

}   // namespace

Result<ChildEnd> run_child(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                           const std::function<void(pid_t)>& look) {
    sigset_t signals, mask_before;
    ::sigemptyset(&signals);
    for (const int number : kForwardedSignals) ::sigaddset(&signals, number);
    ::sigaddset(&signals, SIGCHLD);
    // Our parent may ignore SIGCHLD. Then there would be no exit status to wait for.
    ::signal(SIGCHLD, SIG_DFL);
    if (::sigprocmask(SIG_BLOCK, &signals, &mask_before) != 0) return Status::from_errno(errno, "block signals");
    const int descriptor = ::signalfd(-1, &signals, SFD_CLOEXEC);
    if (descriptor < 0) return Status::from_errno(errno, "create a signal descriptor");
    Result<pid_t> child = spawn(arguments, environment, mask_before);
    if (!child) {
        ::close(descriptor);
        return child.status();
    }
    ChildEnd end;
    for (int pause_ms = kFirstLookMs;;) {
        pollfd signal_comes{descriptor, POLLIN, 0};
        if (look && ::poll(&signal_comes, 1, pause_ms) == 0) {
            look(child.value());
            pause_ms = std::min(2 * pause_ms, kLastLookMs);
            continue;
        }
        signalfd_siginfo info{};
        const ssize_t got = ::read(descriptor, &info, sizeof info);
        if (got < 0 && errno == EINTR) continue;
        if (got != static_cast<ssize_t>(sizeof info)) {
            const Status failure = Status::from_errno(got < 0 ? errno : EIO, "wait for signals");
            ::close(descriptor);
            return failure;
        }
        if (info.ssi_signo != SIGCHLD) {
            if (info.ssi_code != SI_KERNEL) ::kill(child.value(), static_cast<int>(info.ssi_signo));
        } else if (reap(child.value(), end)) {
            break;
        }
    }
    ::close(descriptor);
    return end;
}

}   // namespace forebay::cli
