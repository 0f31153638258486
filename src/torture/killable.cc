#include "torture/killable.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/clock.h"

namespace forebay::torture {

namespace {

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};

}   // namespace

Status Signals::open() {
    ::signal(SIGCHLD, SIG_DFL);   // our parent may ignore SIGCHLD; then there is no exit status to wait for
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGCHLD);
    for (const int number : kEnding) ::sigaddset(&signals, number);
    if (::sigprocmask(SIG_BLOCK, &signals, &mask_before_) != 0) return Status::from_errno(errno, "block signals");
    descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor_ >= 0) return Status::ok();
    const int error = errno;
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    return Status::from_errno(error, "create a signal descriptor");
}

Signals::~Signals() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

bool Signals::take() {
    signalfd_siginfo info{};
    while (::read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
        if (info.ssi_signo != SIGCHLD && asked_ == 0) asked_ = static_cast<int>(info.ssi_signo);
    return asked_ != 0;
}

Result<Killable> Killable::start(Signals& signals, const std::vector<std::string>& arguments,
                                 const std::string& error_path) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::from_errno(errno, "create a pipe");
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &signals.mask_before());
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    std::vector<char*> pointers;
    for (const std::string& text : arguments) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    pid_t child = -1;
    const int error = ::posix_spawn(&child, pointers.front(), &actions, &attributes, pointers.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (error == 0) return Killable(signals, child, ends[0]);
    ::close(ends[0]);
    return Status::from_errno(error, "start " + arguments.front());
}

Killable::Killable(Killable&& other) noexcept
    : signals_(other.signals_),
      pid_(std::exchange(other.pid_, -1)),
      from_(std::exchange(other.from_, -1)),
      wait_status_(other.wait_status_),
      ended_(std::exchange(other.ended_, true)),
      output_(std::move(other.output_)) {}

Killable::~Killable() {
    if (!ended_) {
        kill();
        reap(0);
    }
    if (from_ >= 0) ::close(from_);
}

void Killable::kill() noexcept { signal(SIGKILL); }

void Killable::signal(int number) noexcept {
    if (!ended_) ::kill(pid_, number);
}

void Killable::reap(int flags) noexcept {
    pid_t got = -1;
    do got = ::waitpid(pid_, &wait_status_, flags);
    while (got < 0 && errno == EINTR);
    if (got == pid_) ended_ = true;
}

Status Killable::collect() {
    std::array<char, 4096> block;
    for (;;) {
        const ssize_t got = ::read(from_, block.data(), block.size());
        if (got > 0) {
            output_.append(block.data(), static_cast<std::size_t>(got));
        } else if (got == 0) {
            ::close(std::exchange(from_, -1));
            return Status::ok();
        } else if (errno == EAGAIN) {
            return Status::ok();
        } else if (errno != EINTR) {
            return Status::from_errno(errno, "read from a pipe");
        }
    }
}

Result<Killable::Event> Killable::wait(std::uint64_t deadline_ns, std::size_t output_bytes) {
    for (;;) {
        // This call comes first, so that a later signal of a child's end still wakes the poll.
        const bool interrupted = signals_->take();
        if (from_ >= 0) FOREBAY_TRY(collect());
        if (!ended_) reap(WNOHANG);
        if (output_.size() >= output_bytes) return Event::kOutput;
        if (ended_ && from_ < 0) return Event::kEnded;
        if (interrupted) return Event::kInterrupted;
        const std::uint64_t now = monotonic_ns();
        if (now >= deadline_ns) return Event::kTime;
        const std::uint64_t left = deadline_ns - now;
        const timespec timeout{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
        // poll ignores a descriptor of -1.
        std::array<pollfd, 2> wanted{{{from_, POLLIN, 0}, {signals_->descriptor(), POLLIN, 0}}};
        if (::ppoll(wanted.data(), wanted.size(), &timeout, nullptr) < 0 && errno != EINTR)
            return Status::from_errno(errno, "wait for a process");
    }
}

}   // namespace forebay::torture
