// A descriptor that the program may close behind forebay's back, and give its number to a file of its own.
//
// Daemons and launchers close descriptors that they do not know (closerange, close_range, closefrom), and what they
// open next gets the numbers. So no number is used before it was seen to be ours still: whoever wants one asks for it
// with each call.
//
// How that is seen. The position of a regular file's descriptor is set to a random mark, which costs less to ask for
// than anything else, and asks nothing of a file server. forebay itself reads and writes at explicit offsets only.
// Where a position cannot be had, and of directories and descriptors that the program was given, device and inode are
// compared, as far as the system knows them without asking a server. A descriptor that is ours no more is neither used
// nor closed: the file is opened anew by its path, if what is there is the same file by device, inode and birth time,
// and if the lock that was held can be had again. In the same way a file is opened whose identity is known, and that
// may never have to be opened.
//
// Between the look and the call that follows, another thread of the program may still close the number. That is a few
// hundred nanoseconds; nothing but a descriptor table of our own could do better.
//
// Ownership: closes the number if it is still ours. Thread-safety: all calls from any thread, but `close`, `rest` and
// `lend`, which nobody else's call may overlap. Blocks where it opens anew.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "io/file.h"

namespace forebay::io {

// STATX_MNT_ID_UNIQUE, since Linux 6.8: a number of the mount that is not given again. Kernels before leave it out of
// their answer.
inline constexpr unsigned kMountUnique = 0x4000;

class Descriptor {
  public:
    // Takes `number` over, which was opened with `flags` (open(2)). `path`: by what it is opened anew, if it is
    // absolute.
    Descriptor(int number, std::string path, int flags) noexcept;
    // Of a regular file that is not open: the first use opens it for reading. `born_ns`: when it was made; 0: unknown.
    Descriptor(const Identity& identity, std::uint64_t born_ns, std::string path) noexcept;
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    // A number for one call.
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
    // EBADF: ours is gone, and cannot be had again; the message says why.
    [[nodiscard]] Result<Use> use();

    // Device (st_dev) and inode, as they were when this was made. Does not block. No value: the system did not tell
    // them.
    [[nodiscard]] std::optional<Identity> identity() const noexcept;
    // The mount's number, which the system gives once (STATX_MNT_ID_UNIQUE, Linux 6.8). 0: not known. Does not block.
    [[nodiscard]] std::uint64_t mount() const noexcept { return facts_.mount; }
    // st_blksize (stat(2)), as it was when this was made. 0: not known. Does not block.
    [[nodiscard]] std::uint64_t block_bytes() const noexcept { return facts_.block_bytes; }

    // Whether the number still stands for the file.
    [[nodiscard]] bool is_ours() const noexcept { return is_ours(number()); }
    // The number as it is now, for messages and for who will look at it himself; where it is kept, for
    // H5Fget_vfd_handle. From then on the program may move its position.
    [[nodiscard]] int number() const noexcept { return number_.load(std::memory_order_acquire); }
    [[nodiscard]] int* lend() noexcept;

    // flock(2) with errno; what is locked is locked again where it is opened anew.
    [[nodiscard]] bool lock(int operation) noexcept;

    // From now on it is opened for each call, and takes no number in between.
    void rest() noexcept;
    // Closes it for good: 0 or errno. If ours is gone there is nothing to be closed.
    [[nodiscard]] int close() noexcept;
    // What closing does for the file, and nothing more: network file systems write back then, and say what failed. 0 or
    // errno.
    [[nodiscard]] int flush_as_close() noexcept;

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
    [[nodiscard]] Status lost(int error, const char* why) const;

    std::atomic<int> number_;
    // Programs read it as a wider number: PyTables takes it for a uintptr_t.
    struct alignas(8) {
        int number = -1, nothing = 0;
    } lent_;
    const std::string path_;
    const int flags_;
    const bool opens_later_ = false;   // the program has closed nothing
    Facts facts_;
    std::atomic<std::int64_t> mark_{-1};   // position; -1: none
    bool is_directory_ = false;
    bool resting_ = false, closed_ = false;
    std::atomic<int> locked_{0};   // LOCK_SH, LOCK_EX or neither
    std::mutex opening_;
};

}   // namespace forebay::io
