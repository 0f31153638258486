#include "mount.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace forebay::slowfs {

namespace {

using Session = std::unique_ptr<fuse_session, decltype(&fuse_session_destroy)>;
using LoopConfig = std::unique_ptr<fuse_loop_config, decltype(&fuse_loop_cfg_destroy)>;

constexpr int kWakeSignal = SIGUSR1;

sigset_t ending_signals() noexcept {
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
    return signals;
}

void prepare_process() noexcept {
    ::umask(0);                        // the kernel has already applied the client's umask
    ::prctl(PR_SET_TIMERSLACK, 1UL);   // inherited by the threads that will sleep
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {   // one descriptor for each file that the kernel knows
        files.rlim_cur = files.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &files);
    }
    ::signal(SIGPIPE, SIG_IGN);
    struct sigaction wake{};
    wake.sa_handler = [](int) {};   // without SA_RESTART: it ends the main thread's wait
    ::sigaction(kWakeSignal, &wake, nullptr);
    const sigset_t signals = ending_signals();
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Waits on its own thread for a reason to end, and ends the session.
class Watcher {
  public:
    Watcher(fuse_session* session, Simulation& simulation, bool watch_stdin)
        : session_(session), simulation_(simulation), watch_stdin_(watch_stdin), main_(::pthread_self()) {
        const sigset_t signals = ending_signals();
        signal_fd_ = ::signalfd(-1, &signals, SFD_CLOEXEC);
        done_fd_ = ::eventfd(0, EFD_CLOEXEC);
        thread_ = std::thread([this] { watch(); });
    }

    ~Watcher() {
        const std::uint64_t one = 1;
        (void)!::write(done_fd_, &one, sizeof one);
        thread_.join();
        ::close(signal_fd_);
        ::close(done_fd_);
    }

    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

  private:
    void watch() {
        std::array<pollfd, 3> events = {
            pollfd{.fd = done_fd_, .events = POLLIN, .revents = 0},
            pollfd{.fd = signal_fd_, .events = POLLIN, .revents = 0},
            pollfd{.fd = watch_stdin_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
        };
        while (true) {
            if (::poll(events.data(), events.size(), -1) < 0) continue;
            if (events[0].revents != 0) return;
            if (events[1].revents != 0) break;
            if (events[2].revents != 0) {
                std::array<char, 256> ignored{};
                if (::read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0) break;
            }
        }
        simulation_.stop();
        fuse_session_exit(session_);
        // The loop checks for its end when a signal interrupts its wait. A signal before the wait is lost: repeat it.
        do {
            ::pthread_kill(main_, kWakeSignal);
        } while (::poll(events.data(), 1, 20) == 0);
    }

    fuse_session* session_;
    Simulation& simulation_;
    bool watch_stdin_;
    pthread_t main_;
    int signal_fd_ = -1;
    int done_fd_ = -1;
    std::thread thread_;
};

Session new_session(FileSystem& fs, const MountOptions& options) {
    std::vector<std::string> words = {"slowfs", "-o", "fsname=slowfs,subtype=slowfs,default_permissions"};
    if (options.allow_other) words.back() += ",allow_other";
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    fuse_args args = FUSE_ARGS_INIT(static_cast<int>(arguments.size()), arguments.data());
    Session session(fuse_session_new(&args, &fs.calls(), sizeof(fuse_lowlevel_ops), &fs), &fuse_session_destroy);
    fuse_opt_free_args(&args);
    return session;
}

}   // namespace

Status check_mountable(const std::string& mount_point) {
    if (::access("/dev/fuse", R_OK | W_OK) != 0) {
        return Status::from_errno(errno,
                                  "use /dev/fuse (is the fuse module loaded, and the device open to this user?)");
    }
    struct stat attributes{};
    if (::stat(mount_point.c_str(), &attributes) != 0) {
        const int error = errno;
        std::string doing = "use the mount point " + mount_point;
        if (error == ENOTCONN) doing += " (left over from a mount that ended; try fusermount3 -u)";
        return Status::from_errno(error, doing);
    }
    if (!S_ISDIR(attributes.st_mode)) return Status::from_errno(ENOTDIR, "use the mount point " + mount_point);
    return Status::ok();
}

Status serve(FileSystem& fs, const MountOptions& options, const std::function<void()>& mounted) {
    prepare_process();
    Session session = new_session(fs, options);
    if (!session) return {Code::kUnavailable, "start a FUSE session: libfuse refuses it"};
    if (fuse_session_mount(session.get(), options.mount_point.c_str()) != 0) {
        return {Code::kUnavailable, "mount on " + options.mount_point + ": libfuse's message above says why"};
    }
    int result = 0;
    {
        const Watcher watcher(session.get(), fs.simulation(), options.end_with_stdin);
        LoopConfig config(fuse_loop_cfg_create(), &fuse_loop_cfg_destroy);
        fuse_loop_cfg_set_max_threads(config.get(), options.threads_max);
        fuse_loop_cfg_set_clone_fd(config.get(), 1);
        mounted();
        result = fuse_session_loop_mt(session.get(), config.get());
    }
    fuse_session_unmount(session.get());
    if (result < 0) return Status::from_errno(-result, "serve the mount on " + options.mount_point);
    return Status::ok();
}

}   // namespace forebay::slowfs
