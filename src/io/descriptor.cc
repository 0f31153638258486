#include "io/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "io/spare_descriptors.h"

namespace forebay::io {

namespace {

// Every file system in use with HDF5 accepts such a position.
constexpr std::int64_t kMarkMin = std::int64_t{1} << 30, kMarkMask = kMarkMin - 1;
// Lower numbers are the standard streams. A program that closed one of them reopens it by its number.
constexpr int kFirstNumber = 3;

std::int64_t random_mark() noexcept {
    static std::atomic<std::uint64_t> next{[] {
        std::uint64_t seed = 0;
        if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
            seed = static_cast<std::uint64_t>(::getpid()) << 32;
        return seed;
    }()};
    // Marks of one process stay distinct for long, and most likely those of two (Knuth's multiplier).
    return kMarkMin +
           static_cast<std::int64_t>((next.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B97F4A7C15U >> 20) &
                                     static_cast<std::uint64_t>(kMarkMask));
}

}   // namespace

Descriptor::Use::~Use() {
    if (passing_ && number_ >= 0) ::close(number_);
}

Descriptor::Descriptor(int number, std::string path, int flags) noexcept
    : number_(number), path_(std::move(path)), flags_(flags) {
    if (!find_facts(number, facts_)) facts_ = {};
    is_directory_ = S_ISDIR(facts_.mode);
    if (S_ISREG(facts_.mode)) set_mark(number);
}

Descriptor::Descriptor(const Identity& identity, std::uint64_t born_ns, std::string path) noexcept
    : number_(-1),
      path_(std::move(path)),
      flags_(O_RDONLY),
      opens_later_(true),
      facts_{.device = identity.device, .inode = identity.inode, .born_ns = born_ns, .mode = S_IFREG} {}

Descriptor::~Descriptor() { (void)close(); }

void Descriptor::set_mark(int number) noexcept {
    const std::int64_t mark = random_mark();
    mark_.store(::lseek(number, mark, SEEK_SET) == mark ? mark : -1, std::memory_order_release);
}

// Asks no server, because the comparison uses only facts that this machine knows.
bool Descriptor::find_facts(int number, Facts& facts) noexcept {
    struct statx found{};
    if (::statx(number, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_BTIME | kMountUnique,
                &found) != 0)
        return false;
    facts.device = makedev(found.stx_dev_major, found.stx_dev_minor);
    facts.inode = found.stx_ino;
    facts.mode = found.stx_mode;
    facts.block_bytes = found.stx_blksize;
#ifdef STATX_MNT_ID
    facts.mount = (found.stx_mask & kMountUnique) != 0 ? found.stx_mnt_id : 0;
#endif
    constexpr std::uint64_t kSecond = 1'000'000'000;
    facts.born_ns = (found.stx_mask & STATX_BTIME) == 0
                        ? 0
                        : static_cast<std::uint64_t>(found.stx_btime.tv_sec) * kSecond + found.stx_btime.tv_nsec;
    return true;
}

std::optional<Identity> Descriptor::identity() const noexcept {
    return facts_.inode == 0 ? std::nullopt : std::optional(Identity{facts_.device, facts_.inode});
}

bool Descriptor::is_same(int number, bool compare_birth) const noexcept {
    Facts now;
    if (!find_facts(number, now) || now.device != facts_.device || now.inode != facts_.inode) return false;
    return !compare_birth || now.born_ns == 0 || facts_.born_ns == 0 || now.born_ns == facts_.born_ns;
}

bool Descriptor::is_ours(int number) const noexcept {
    if (number < 0) return false;
    if (const std::int64_t mark = mark_.load(std::memory_order_acquire); mark >= 0)
        return ::lseek(number, 0, SEEK_CUR) == mark;
    return is_same(number, false);
}

int* Descriptor::lend() noexcept {
    if (const int number = number_.load(std::memory_order_acquire); is_ours() && mark_.exchange(-1) >= 0)
        ::lseek(number, 0, SEEK_SET);
    lent_.number = number_.load(std::memory_order_acquire);
    return &lent_.number;
}

// A number to use, not to close: a child moved a lent descriptor's position, or it is another descriptor of the file.
bool Descriptor::is_as_good(int number) const noexcept {
    constexpr int kCompared = O_ACCMODE | O_APPEND | O_DIRECT | O_PATH;
    if (number < 0 || facts_.inode == 0 || !is_same(number, true)) return false;
    const int flags = ::fcntl(number, F_GETFL);
    return flags >= 0 && (flags & kCompared) == (flags_ & kCompared);
}

// The checked number is the one that is used. While another thread opens the file anew, there is no number.
Result<Descriptor::Use> Descriptor::use() {
    const int number = number_.load(std::memory_order_acquire);
    return is_ours(number) || is_as_good(number) ? Use(number, false) : open_anew();
}

Status Descriptor::lost(int error, const char* why) const {
    return {Code::kIo,
            opens_later_ ? fmt::format("open {}: {}", path_, why)
                         : fmt::format("the program has closed forebay's descriptor of {}, and it cannot be opened "
                                       "again: {}",
                                       path_, why),
            error};
}

// A forked child does not wait: a thread of its parent may have held the lock at the fork.
std::unique_lock<std::mutex> Descriptor::lock_unless_forked() {
    return forks_so_far() == forks_ ? std::unique_lock(opening_) : std::unique_lock(opening_, std::try_to_lock);
}

Result<Descriptor::Use> Descriptor::open_anew() {
    const auto opening = lock_unless_forked();
    if (closed_) return Status::from_errno(EBADF, "use " + path_ + ", which is closed");
    if (const int found = number_.load(std::memory_order_acquire); is_ours(found) || is_as_good(found))
        return Use(found, false);   // another thread has opened it
    if (!path_.starts_with('/') || facts_.inode == 0) return lost(EBADF, "its path is not known");
    // O_NONBLOCK, and O_NOFOLLOW as at the first open: any kind of file may have the name now.
    const int kept_flags = flags_ & (O_ACCMODE | O_DIRECTORY | O_NOFOLLOW | O_DIRECT | O_SYNC | O_DSYNC);
    const auto open = [&] {
        int opened = -1;
        do opened = ::open(path_.c_str(), kept_flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        while (opened < 0 && errno == EINTR);
        return opened;
    };
    int number = open();
    // A spare descriptor of forebay makes room, as in the driver's own open.
    if (number < 0 && opens_later_ && (errno == EMFILE || errno == ENFILE) &&
        SpareDescriptors::of_process().give_all_back())
        number = open();
    if (number < 0) return Status::from_errno(errno, "open " + path_ + (opens_later_ ? "" : " again"));
    Use use(number, true);
    if (!is_same(number, true)) return lost(ESTALE, "another file has taken its name");
    const int locked = locked_.load(std::memory_order_relaxed);
    if (locked != 0 && ::flock(number, locked | LOCK_NB) != 0 && errno != ENOSYS && errno != EOPNOTSUPP)
        return lost(errno, "another process has locked it meanwhile");
    if (is_directory_ || resting_ || !opening) return use;
    if (number < kFirstNumber) {
        const int higher = ::fcntl(number, F_DUPFD_CLOEXEC, kFirstNumber);
        if (higher < 0) return Status::from_errno(errno, "open " + path_ + " again");
        number_.store(-1);
        set_mark(higher);
        number_.store(higher, std::memory_order_release);
        return Use(higher, false);   // the destructor of `use` closes the low number
    }
    number_.store(-1);
    set_mark(number);
    number_.store(number, std::memory_order_release);
    use.keep();
    return use;
}

bool Descriptor::lock(int operation) noexcept {
    const bool unlocks = (operation & LOCK_UN) != 0;
    if (unlocks) locked_.store(0, std::memory_order_relaxed);
    if (unlocks && !is_ours()) return true;   // the lock went with the descriptor
    // A forked child shares the lock with its parent, and natively only closes its descriptor.
    if (unlocks && locker_.load(std::memory_order_relaxed) != ::getpid()) return true;
    const auto used = use();
    if (!used) {
        errno = used.status().sys_errno();
        return false;
    }
    if (::flock(used.value().number(), operation) != 0) return false;
    locked_.store(operation & (LOCK_SH | LOCK_EX), std::memory_order_relaxed);
    locker_.store(unlocks ? 0 : ::getpid(), std::memory_order_relaxed);
    return true;
}

void Descriptor::rest() noexcept {
    const auto opening = lock_unless_forked();
    resting_ = true;
    if (is_ours()) ::close(number_.load());
    number_.store(-1);
    mark_.store(-1);
}

int Descriptor::close() noexcept {
    const auto opening = lock_unless_forked();
    const bool first = !std::exchange(closed_, true);
    const bool ours = is_ours();
    const int number = number_.exchange(-1);
    return first && ours && ::close(number) != 0 ? errno : 0;
}

std::optional<int> Descriptor::flush_as_close() noexcept {
    const int number = number_.load(std::memory_order_acquire);
    const int copy = is_ours(number) ? ::fcntl(number, F_DUPFD_CLOEXEC, kFirstNumber) : -1;
    if (copy < 0) return std::nullopt;
    return ::close(copy) != 0 ? errno : 0;
}

}   // namespace forebay::io
