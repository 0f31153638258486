#include "io/process_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <new>
#include <string_view>

#include "base/attempt.h"
#include "io/own_descriptor.h"

namespace forebay::io {

namespace {

// An attempt fails only if another process looks at the file at that moment, or has just removed it.
constexpr int kAttempts = 100'000;
constexpr std::size_t kNoteBytes = 32;

// A child must not inherit the descriptor of a lock that is being taken, nor its mapping before MADV_DONTFORK.
struct ForkGate {
    std::mutex mutex;
    std::atomic<std::uint64_t> forks{0};

    static ForkGate& instance() noexcept {
        alignas(ForkGate) static std::byte place[sizeof(ForkGate)];
        static ForkGate* const gate = ::new (place) ForkGate;   // never destroyed: a fork may come late
        return *gate;
    }
    static bool is_told_of_forks() noexcept {
        static const bool told = ::pthread_atfork([] { instance().mutex.lock(); }, [] { instance().mutex.unlock(); },
                                                  [] {
                                                      instance().forks.fetch_add(1, std::memory_order_relaxed);
                                                      instance().mutex.unlock();
                                                  }) == 0;
        return told;
    }
};

// Unlocks before it closes: a child that another thread forks meanwhile inherits the descriptor.
class SharedLock final : public Lock {
  public:
    explicit SharedLock(int number) noexcept : file_(number) {}
    SharedLock(const SharedLock&) = delete;
    SharedLock& operator=(const SharedLock&) = delete;
    ~SharedLock() override {
        if (file_ && process_ == ::getpid()) (void)::flock(file_.number(), LOCK_UN);
    }
    [[nodiscard]] int number() const noexcept { return file_.number(); }

  private:
    OwnDescriptor file_;
    const pid_t process_ = ::getpid();
};

bool flock_now(int file, int operation) noexcept {
    for (;;) {
        if (::flock(file, operation | LOCK_NB) == 0) return true;
        if (errno != EINTR) return false;
    }
}

// A process that removes the file prevents other locks on it meanwhile, so a lock on a removed file is void.
bool is_there(int file) noexcept {
    struct stat facts{};
    return ::fstat(file, &facts) == 0 && facts.st_nlink > 0;
}

bool is_locked_as_before(int file) noexcept {
    struct flock holder{};
    holder.l_type = F_WRLCK;
    holder.l_whence = SEEK_SET;
    return ::fcntl(file, F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK;
}

void note_holder(int file) noexcept {
    std::array<char, kNoteBytes> note{};
    (void)fmt::format_to_n(note.data(), note.size(), "process {}\n", ::getpid());
    // The file's length identifies this version, and needs no room on the device.
    if (::ftruncate(file, static_cast<off_t>(note.size())) == 0) (void)!::pwrite(file, note.data(), note.size(), 0);
}

std::string holder_noted(int file) {
    std::array<char, kNoteBytes> note{};
    const ssize_t got = ::pread(file, note.data(), note.size(), 0);
    const std::string_view text(note.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    const auto end = text.find('\n');
    return end == std::string_view::npos || !text.starts_with("process ") ? std::string("another process")
                                                                          : std::string(text.substr(0, end));
}

// mmap and madvise lack memory by EAGAIN too, which means here that others look at the file.
int lack_of(int error) noexcept { return error == EAGAIN ? ENOMEM : error; }

// Removes a file that was made for a lock that cannot be taken: it would tell nothing for ever. The caller still has it
// locked, so no other process takes a lock on it meanwhile.
void remove_if_empty(int folder, const char* name, int file) noexcept {
    struct stat facts{};
    if (::fstat(file, &facts) == 0 && facts.st_size == 0) (void)::unlinkat(folder, name, 0);
}

int look(int folder, const char* name, Holder& holder) noexcept {
    const OwnDescriptor file(::openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    holder = Holder::kUntold;
    if (!file) return errno == ENOENT ? 0 : errno;
    struct stat facts{};
    if (::fstat(file.number(), &facts) != 0) return errno;
    if (!S_ISREG(facts.st_mode)) return EINVAL;
    if (!flock_now(file.number(), LOCK_SH)) {
        if (errno != EWOULDBLOCK) return errno;
        holder = Holder::kSomebody;
        return 0;
    }
    if (is_locked_as_before(file.number())) holder = Holder::kSomebody;
    else if (facts.st_size > 0) holder = Holder::kNobody;
    (void)::flock(file.number(), LOCK_UN);   // a child that is forked meanwhile must not keep it
    return 0;
}

}   // namespace

std::uint64_t forks_so_far() noexcept {
    (void)ForkGate::is_told_of_forks();
    return ForkGate::instance().forks.load(std::memory_order_relaxed);
}

ProcessLock::ProcessLock(void* page, std::size_t bytes) noexcept
    : page_(page), bytes_(bytes), process_(::getpid()), forks_(forks_so_far()) {}

bool ProcessLock::is_of_this_process() const noexcept { return ::getpid() == process_ && forks_so_far() == forks_; }

ProcessLock::~ProcessLock() {
    // A child lacks this mapping, and may have another one at its address.
    if (is_of_this_process()) ::munmap(page_, bytes_);
}

Result<std::unique_ptr<ProcessLock>> ProcessLock::take(int folder, const std::string& name, const std::string& path) {
    if (!ForkGate::is_told_of_forks()) return Status::from_errno(ENOMEM, "ask to be told of forks");
    const std::size_t page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const std::lock_guard no_fork(ForkGate::instance().mutex);
        const OwnDescriptor file(::openat(folder, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                                          0600));
        if (!file) return Status::from_errno(errno, "open " + path);
        if (!flock_now(file.number(), LOCK_EX)) {
            if (errno != EWOULDBLOCK) return Status::from_errno(errno, "lock " + path);
            if (!flock_now(file.number(), LOCK_SH))
                return Status(Code::kUnavailable, holder_noted(file.number()), EBUSY, true);
            continue;   // other processes only look
        }
        if (!is_there(file.number())) continue;
        if (is_locked_as_before(file.number()))
            return Status(Code::kUnavailable, "a process with an older forebay", EBUSY, true);
        void* const page = ::mmap(nullptr, page_bytes, PROT_NONE, MAP_SHARED, file.number(), 0);
        if (page == MAP_FAILED) {
            const int error = lack_of(errno);
            remove_if_empty(folder, name.c_str(), file.number());
            return Status::from_errno(error, "map " + path);
        }
        if (::madvise(page, page_bytes, MADV_DONTFORK) != 0) {
            const int error = lack_of(errno);
            ::munmap(page, page_bytes);
            remove_if_empty(folder, name.c_str(), file.number());
            return Status::from_errno(error, "keep the mapping of " + path + " from children");
        }
        note_holder(file.number());
        auto* const taken = new (std::nothrow) ProcessLock(page, page_bytes);
        if (taken == nullptr) {
            ::munmap(page, page_bytes);   // the file is one of a dead process now
            throw std::bad_alloc();
        }
        return std::unique_ptr<ProcessLock>(taken);
    }
    return Status(Code::kUnavailable, "lock " + path + ": others look at it all the time", EAGAIN, true);
}

Result<Holder> ProcessLock::holder(int folder, const std::string& name, const std::string& path) {
    Holder holder = Holder::kUntold;
    if (const int error = look(folder, name.c_str(), holder); error != 0)
        return Status::from_errno(error, "look at the lock of " + path);
    return holder;
}

namespace {

bool is_missing(const std::string& path) noexcept {
    struct stat facts{};
    return ::lstat(path.c_str(), &facts) != 0 && errno == ENOENT;
}

// Returns false if memory is lacking.
bool is_missing(const std::string& directory, const std::string& name) noexcept {
    bool missing = false;
    (void)attempt([&] { missing = is_missing(directory + "/" + name); });
    return missing;
}

}   // namespace

int ProcessLock::look_at(const std::string& directory, const std::string& name, Holder& holder) noexcept {
    const OwnDescriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    int error = folder ? look(folder.number(), name.c_str(), holder) : errno;
    bool gone = !folder && error == ENOENT;
    // A check of the name needs no descriptor.
    if (error == EMFILE || error == ENFILE) {
        gone = is_missing(directory);
        if (gone || is_missing(directory, name)) error = ENOENT;
    }
    if (error != 0) holder = gone ? Holder::kNobody : Holder::kUntold;
    return is_no_lock(error) ? 0 : error;
}

bool ProcessLock::is_no_lock(int error) noexcept {
    constexpr std::array kNoLock{ENOENT, ELOOP, EINVAL, EACCES, EPERM, ENXIO, ENOTDIR, ENAMETOOLONG};
    return std::find(kNoLock.begin(), kNoLock.end(), error) != kNoLock.end();
}

// inotify reports the end of the file's last mapping, a moment before the lock ends.
bool ProcessLock::await_end(const std::string& directory, const std::string& name, std::chrono::milliseconds at_most) {
    constexpr std::chrono::milliseconds kTryAgain{20};
    const auto end = std::chrono::steady_clock::now() + at_most;
    const OwnDescriptor told(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (told)
        (void)::inotify_add_watch(told.number(), (directory + "/" + name).c_str(), IN_CLOSE_WRITE | IN_DELETE_SELF);
    Holder holder = Holder::kUntold;
    while (look_at(directory, name, holder) != 0 || holder == Holder::kSomebody) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        if (left.count() <= 0) return false;
        pollfd waiting{told.number(), POLLIN, 0};
        (void)::poll(&waiting, 1, static_cast<int>(std::min(left, kTryAgain).count()));
        std::array<char, 4096> events;
        while (told && ::read(told.number(), events.data(), events.size()) > 0) {
        }
    }
    return true;
}

Result<std::unique_ptr<Lock>> ProcessLock::keep_free(int folder, const std::string& name, const std::string& path) {
    auto kept = std::make_unique<SharedLock>(::openat(folder, name.c_str(),
                                                      O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (kept->number() < 0) return Status::from_errno(errno, "open " + path);
    if (!flock_now(kept->number(), LOCK_SH)) {
        if (errno != EWOULDBLOCK) return Status::from_errno(errno, "lock " + path);
        return Status(Code::kUnavailable, holder_noted(kept->number()) + " lives", EBUSY, true);
    }
    if (is_locked_as_before(kept->number())) return Status(Code::kUnavailable, "its process lives", EBUSY, true);
    return std::unique_ptr<Lock>(std::move(kept));
}

}   // namespace forebay::io
