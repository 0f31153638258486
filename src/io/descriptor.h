// A descriptor that survives a program which closes it and reuses its number. Daemons and launchers close unknown
// descriptors (closerange, close_range, closefrom), and files that they open later get the numbers. So callers ask for
// the number with each call, and each use first checks that it is still ours.
// The check: a regular file's position is set to a random mark, and reading it needs no request to a file server.
// forebay itself reads and writes at explicit offsets only. Files without a position, directories and lent descriptors
// are compared by device and inode, as far as known without a request. A lost descriptor is neither used nor closed.
// Instead the file is opened anew by its path. That requires the same device, inode and birth time, and a held lock
// must be available again. A file with a known identity is also opened in this way, at its first use.
// Between check and call, another thread of the program may close the number: for a few hundred nanoseconds. Only a
// private descriptor table could prevent that. Ownership: closes the number if it is still ours. Thread-safety: all
// calls from any thread; no other call may overlap `close`, `rest` and `lend`. Blocks while it opens anew. A forked
// child never waits for the lock, which a thread of its parent may have held: then it opens the file for each call.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "io/file.h"
#include "io/process_lock.h"

namespace forebay::io {

// STATX_MNT_ID_UNIQUE, since Linux 6.8: the number of a mount, never reused. Older kernels leave it out.
inline constexpr unsigned kMountUnique = 0x4000;

class Descriptor {
  public:
    // Takes over `number`, which was opened with `flags` (open(2)). An absolute `path` serves to open the file anew.
    Descriptor(int number, std::string path, int flags) noexcept;
    // For a regular file that is not open: the first use opens it for reading. `born_ns` is its birth time; 0: unknown.
    Descriptor(const Identity& identity, std::uint64_t born_ns, std::string path) noexcept;
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    class Use {
      public:
        Use(int number, bool passing) noexcept : number_(number), passing_(passing) {}
        Use(Use&& other) noexcept : number_(std::exchange(other.number_, -1)), passing_(other.passing_) {}
        Use& operator=(Use&&) = delete;
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        ~Use();
        [[nodiscard]] int number() const noexcept { return number_; }
        void keep() noexcept { passing_ = false; }

      private:
        int number_;
        bool passing_;   // opened for this call
    };
    // Returns EBADF, with the reason in its message, if the descriptor is lost and cannot be opened anew.
    [[nodiscard]] Result<Use> use();

    // As of the construction; 0 or none: unknown. `mount`: never reused (kMountUnique). `block_bytes`: st_blksize.
    [[nodiscard]] std::optional<Identity> identity() const noexcept;
    [[nodiscard]] std::uint64_t mount() const noexcept { return facts_.mount; }
    [[nodiscard]] std::uint64_t block_bytes() const noexcept { return facts_.block_bytes; }

    [[nodiscard]] bool is_ours() const noexcept { return is_ours(number()); }
    // For messages and own checks. `lend`: the number's address (H5Fget_vfd_handle); the program may move the position.
    [[nodiscard]] int number() const noexcept { return number_.load(std::memory_order_acquire); }
    [[nodiscard]] int* lend() noexcept;

    // Calls flock(2), and sets errno. A new descriptor takes the same lock again.
    [[nodiscard]] bool lock(int operation) noexcept;

    // Opens the file for each later call, and holds no number in between.
    void rest() noexcept;
    // Closes the descriptor permanently, and returns 0 or errno. Has nothing to close if the descriptor is lost.
    [[nodiscard]] int close() noexcept;
    // Makes a network file system write back and report failures, as at a close. Returns 0 or errno. None: it has asked
    // nothing, as the process has no number left, or the descriptor is lost.
    [[nodiscard]] std::optional<int> flush_as_close() noexcept;

  private:
    struct Facts {
        std::uint64_t device = 0, inode = 0, born_ns = 0, mount = 0, block_bytes = 0;
        std::uint32_t mode = 0;
    };
    [[nodiscard]] static bool find_facts(int number, Facts& facts) noexcept;
    [[nodiscard]] bool is_same(int number, bool compare_birth) const noexcept;
    [[nodiscard]] bool is_ours(int number) const noexcept;
    [[nodiscard]] bool is_as_good(int number) const noexcept;
    void set_mark(int number) noexcept;
    Result<Use> open_anew();
    [[nodiscard]] std::unique_lock<std::mutex> lock_unless_forked();
    [[nodiscard]] Status lost(int error, const char* why) const;

    std::atomic<int> number_;
    // Programs read it as a wider number: PyTables takes it for a uintptr_t.
    struct alignas(8) {
        int number = -1, nothing = 0;
    } lent_;
    const std::string path_;
    const int flags_;
    const bool opens_later_ = false;
    Facts facts_;
    std::atomic<std::int64_t> mark_{-1};   // position; -1: none
    bool is_directory_ = false;
    bool resting_ = false, closed_ = false;
    std::atomic<int> locked_{0};     // LOCK_SH, LOCK_EX or neither
    std::atomic<pid_t> locker_{0};   // the process that took the lock
    const std::uint64_t forks_ = forks_so_far();
    std::mutex opening_;
};

}   // namespace forebay::io
