#include "io/detached_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>

namespace forebay::io {

namespace {

class Preparation {
  public:
    Preparation() noexcept {
        ::posix_spawn_file_actions_init(&actions_);
        ::posix_spawnattr_init(&attributes_);
    }
    ~Preparation() {
        ::posix_spawn_file_actions_destroy(&actions_);
        ::posix_spawnattr_destroy(&attributes_);
    }
    Preparation(const Preparation&) = delete;
    Preparation& operator=(const Preparation&) = delete;

    [[nodiscard]] int fill(int ready) noexcept {
        int error = ::posix_spawn_file_actions_adddup2(&actions_, ready, kReadyDescriptor);
        for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
            if (error == 0) error = ::posix_spawn_file_actions_addopen(&actions_, standard, "/dev/null", O_RDWR, 0);
        sigset_t none, all;
        ::sigemptyset(&none);
        ::sigfillset(&all);
        if (error == 0) error = ::posix_spawnattr_setsigmask(&attributes_, &none);
        if (error == 0) error = ::posix_spawnattr_setsigdefault(&attributes_, &all);
        if (error == 0)
            error = ::posix_spawnattr_setflags(&attributes_,
                                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        return error;
    }
    [[nodiscard]] int spawn(pid_t& child, char* const* arguments) noexcept {
        return ::posix_spawn(&child, arguments[0], &actions_, &attributes_, arguments, environ);
    }

  private:
    posix_spawn_file_actions_t actions_;
    posix_spawnattr_t attributes_;
};

class Pipe {
  public:
    // Its numbers lie above those of the new process.
    Pipe() noexcept {
        std::array<int, 2> ends{-1, -1};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
        for (std::size_t i = 0; i < 2; ++i) {
            ends_[i] = ::fcntl(ends[i], F_DUPFD_CLOEXEC, kReadyDescriptor + 1);
            ::close(ends[i]);
        }
    }
    ~Pipe() {
        close(0);
        close(1);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    [[nodiscard]] bool is_open() const noexcept { return ends_[0] >= 0 && ends_[1] >= 0; }
    [[nodiscard]] int reading() const noexcept { return ends_[0]; }
    [[nodiscard]] int writing() const noexcept { return ends_[1]; }
    void close_writing() noexcept { close(1); }

  private:
    void close(std::size_t end) noexcept {
        if (ends_[end] >= 0) ::close(ends_[end]);
        ends_[end] = -1;
    }
    std::array<int, 2> ends_{-1, -1};
};

// Returns true if a byte arrived, and false if the other end was closed or the time is over.
bool await_byte(int descriptor, std::chrono::milliseconds at_most) noexcept {
    const auto end = std::chrono::steady_clock::now() + at_most;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd waiting{descriptor, POLLIN, 0};
        const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (ready < 0 && errno == EINTR) continue;
        char byte = 0;
        return ready > 0 && ::read(descriptor, &byte, 1) == 1;
    }
}

// Linux has this call since 5.9.
bool close_range_from(int first) noexcept {
#ifdef SYS_close_range
    return ::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0;
#else
    return static_cast<void>(first), false;
#endif
}

struct CloseFolder {
    void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

Status close_listed_from(int first) {
    const std::unique_ptr<DIR, CloseFolder> listing(::opendir("/proc/self/fd"));
    if (!listing) return Status::from_errno(errno, "list the open descriptors");
    std::vector<int> open;
    while (const dirent* const entry = ::readdir(listing.get())) {
        int descriptor = -1;
        const char* const end = entry->d_name + std::strlen(entry->d_name);
        if (std::from_chars(entry->d_name, end, descriptor).ptr == end && descriptor >= first &&
            descriptor != ::dirfd(listing.get()))
            open.push_back(descriptor);
    }
    for (const int descriptor : open) ::close(descriptor);
    return Status::ok();
}

}   // namespace

Status settle_detached() {
    if (!close_range_from(kReadyDescriptor + 1)) FOREBAY_TRY(close_listed_from(kReadyDescriptor + 1));
    if (::chdir("/") != 0) return Status::from_errno(errno, "change to the root");
    return Status::ok();
}

Status start_detached(const std::vector<std::string>& arguments, std::chrono::milliseconds at_most) {
    std::vector<char*> words;
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    Pipe pipe;
    if (!pipe.is_open()) return Status::from_errno(errno, "make a pipe");
    Preparation preparation;
    pid_t child = -1;
    int error = preparation.fill(pipe.writing());
    if (error == 0) error = preparation.spawn(child, words.data());
    if (error != 0) return Status::from_errno(error, "start " + arguments.front());
    pipe.close_writing();
    if (await_byte(pipe.reading(), at_most)) return Status::ok();
    int status = 0;
    (void)::waitpid(child, &status, WNOHANG);
    return {Code::kUnavailable, arguments.front() + " did not become ready"};
}

}   // namespace forebay::io
