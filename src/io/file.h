// The only door to the operating system's files: one seam with a POSIX, an in-memory and a fault-injecting
// implementation, which all pass the same conformance tests. Offsets and lengths are bytes. Calls block until the
// operating system has taken the bytes; only the sync calls wait for a device. INVARIANT: each error that the operating
// system reports is returned, also without memory for its text, because a failed write-back is reported only once. A
// call that throws std::bad_alloc has got no such report. Thread-safety: calls on one File may run
// concurrently; overlapping concurrent writes leave the bytes of either one.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::io {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// The identity of a file (st_dev, st_ino), stable while it exists.
struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
    friend auto operator<=>(const Identity&, const Identity&) = default;
};

// Distinguishes a file from earlier ones with the same identity, and an unchanged file from a changed one.
struct FileState {
    std::uint64_t size = 0;
    std::uint64_t modified_ns = 0, changed_ns = 0;   // mtime and ctime, by the clock of the file's machine
    std::uint64_t born_ns = 0;                       // birth time; 0: the file system has none
    std::uint64_t generation = 0;                    // of the inode number; 0: unknown or not requested
    std::uint32_t mode = 0, links = 0, owner = 0, group = 0;
    std::uint64_t mount = 0;   // mount of the access, never reused in this boot; 0: unknown
    friend bool operator==(const FileState&, const FileState&) = default;
};

enum class TimesKind : std::uint8_t {
    kUnknown,   // no time was recorded: the target has none
    kExact,     // local file systems: this machine's clock, set at the write
    kServed,    // a server's clock, set before the write returns
    kLazy,      // NFS, GlusterFS, JuiceFS and similar: set at some time after the write, as this machine sees it
};

struct FileTraits {
    bool local = false;        // known to be on this machine
    bool may_hang = true;      // a call may never return, because a server may not answer
    bool page_cache = false;   // a write returns once the bytes are in this machine's memory
    // A write that has returned may fail later, when a client or server passes its bytes on. A later write, sync or
    // close reports that once, and its error does not tell which bytes are lost.
    bool reports_late = false;
    // Bytes lie in this machine's memory only, so no device can lose them after a write has returned.
    bool in_memory = false;
    std::uint64_t stripe_bytes = 0;   // preferred unit of writes; 0: none (io/stripe_size.h)
    TimesKind times = TimesKind::kServed;
    bool may_lease = true;   // false: a lease (io::Lease) would ask the server, as on NFS and SMB
    // Every change changes the times, and no other file ever has the same identity and state. False: unknown.
    bool sure_versions = false;
};

// A shared mapping of a part of a file. Readers see stores at once, and stores survive the process's death.
class Mapping {
  public:
    virtual ~Mapping() = default;
    [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }
    // Makes the pages of `part` present and writable now, so later stores cause no page fault. Advice.
    virtual void touch(MutableBytes part) noexcept = 0;
    void touch() noexcept { touch(bytes()); }
    // Brings `part` into memory, and returns true if all of it can be loaded now, as far as the system knows.
    [[nodiscard]] virtual bool present(Bytes part) noexcept = 0;

  protected:
    explicit Mapping(MutableBytes bytes) noexcept : bytes_(bytes) {}
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

  private:
    MutableBytes bytes_;
};

// A part of a mapping with another owner. The mapping outlives this object.
class MappingPart final : public Mapping {
  public:
    MappingPart(Mapping& whole, std::uint64_t offset, std::uint64_t size) noexcept
        : Mapping(whole.bytes().subspan(offset, size)), whole_(whole) {}
    using Mapping::touch;
    void touch(MutableBytes part) noexcept override { whole_.touch(part); }
    [[nodiscard]] bool present(Bytes part) noexcept override { return whole_.present(part); }

  private:
    Mapping& whole_;
};

class File {
  public:
    virtual ~File() = default;
    File() = default;
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    [[nodiscard]] virtual const std::string& name() const noexcept = 0;

    // Reads from `offset` until `into` is full or the file ends. Returns the number of bytes read.
    virtual Result<std::size_t> read_at(std::uint64_t offset, MutableBytes into) = 0;

    // Write all bytes, the pieces as one contiguous range, or fail. After a failure any prefix may be written.
    virtual Status write_at(std::uint64_t offset, Bytes bytes) = 0;

    virtual Status write_gather_at(std::uint64_t offset, std::span<const Bytes> pieces) = 0;

    // Asks the file system, which may ask a server. The default describes an unknown file.
    virtual FileTraits traits() { return {}; }

    // Together the version of the file: its identity, its size, and its state with the times.
    virtual Result<Identity> identity() = 0;
    virtual Result<std::uint64_t> size() = 0;
    // Returns kUnsupported for files without times. `kWithGeneration` asks the file system by an ioctl; only for local
    // files, because others may ask a server. `kOfServer` asks the server, past a client's cache.
    enum class Ask : std::uint8_t { kTimes, kWithGeneration, kOfServer };
    virtual Result<FileState> state(Ask /*ask*/ = Ask::kTimes) {
        return Status(Code::kUnsupported, "files of this kind have no times");
    }
    virtual Status resize(std::uint64_t size) = 0;

    // Reserves device space for [offset, offset + length) and grows the file. Stores there never lack space.
    virtual Status allocate(std::uint64_t offset, std::uint64_t length) = 0;

    // Returns the space of [offset, offset + length) to the device. The range reads as zeros, and the size stays.
    virtual Status punch(std::uint64_t offset, std::uint64_t length) = 0;

    virtual Result<std::unique_ptr<Mapping>> map(std::uint64_t offset, std::size_t length) = 0;

    // Waits until all written bytes are on the device (fdatasync).
    virtual Status sync() = 0;
    // Reports late failures as close(2) does, for targets with `reports_late`. A network file system writes back what
    // this machine holds, and need not wait for a device.
    virtual Status flush() { return Status::ok(); }

    // Returns the failure of a write-back, if one happened since the file was opened here, or since the last call of
    // this or of `sync`. Then any bytes written before may be lost, and later reads return others. Waits for no device.
    virtual Status late_failure() { return Status::ok(); }

    // Announces a sync of [offset, offset + length), so the device may begin. Advice: it changes nothing visible, and
    // the sync reports failures. May wait for a place in the device's queue.
    virtual void begin_sync(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}

    // Limits later use of a descriptor to each call, for a file mostly used through its mapping. No call may overlap.
    virtual void rest() noexcept {}
};

enum class OpenMode : std::uint8_t {
    kRead,
    kReadWrite,
    kCreateNew,   // read-write, mode 0600; fails if the file exists
};

// The file behind a name in a directory. A symbolic link is reported, and never followed.
struct Facts {
    enum class Kind : std::uint8_t { kFile, kDirectory, kSymbolicLink, kOther };
    Kind kind = Kind::kOther;
    std::uint64_t owner = 0;
    std::uint32_t mode = 0;
    static constexpr std::uint32_t kRightsOfOthers = 077, kWritableByOthers = 022;
    // CLOCK_REALTIME, coarse; 0: unknown. In a directory, an added or removed entry counts.
    std::uint64_t modified_ns = 0;
};

// A lock that lasts as long as this object, or its process.
class Lock {
  public:
    virtual ~Lock() = default;
    Lock() = default;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
};

// The holder of a lock that ends with its process. Untold: the lock file is missing, or gives no answer.
enum class Holder : std::uint8_t { kNobody, kSomebody, kUntold };

// A directory by descriptor: names are single components, and symbolic links are never followed.
class Directory {
  public:
    virtual ~Directory() = default;
    Directory() = default;
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;

    [[nodiscard]] virtual const std::string& name() const noexcept = 0;
    virtual Result<std::unique_ptr<File>> open_file(const std::string& name, OpenMode mode) = 0;
    virtual Result<std::unique_ptr<Directory>> create_directory(const std::string& name) = 0;   // mode 0700
    virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& name) = 0;
    virtual Status remove_file(const std::string& name) = 0;
    virtual Status remove_directory(const std::string& name) = 0;   // it must be empty; later creations in it fail
    virtual Result<std::vector<std::string>> list() = 0;            // sorted, without "." and ".."
    // Waits until all creations and removals of names here are on the device.
    virtual Status sync() = 0;
    virtual Result<Facts> facts(const std::string& name) = 0;   // "." is the directory itself
    // Limits later use of a descriptor to the time of each call. No other call may overlap this one.
    virtual void rest() noexcept {}

    // Excludes all other lockers of this directory, in this or another process. While another one holds the lock, the
    // call blocks: not at all (kTry), without limit (kWait), or for a given time. Then it returns kUnavailable.
    struct Patience {
        std::optional<std::chrono::milliseconds> at_most;   // none: no limit
        static const Patience kTry, kWait;
    };
    virtual Result<std::unique_ptr<Lock>> lock(Patience patience) = 0;

    // Makes a missing file of this name, and locks it while the result and this image of the process last. The lock
    // shows other processes that this one lives. Fails as of `has_holder` if another process holds
    // the lock.
    virtual Result<std::unique_ptr<Lock>> hold(const std::string& name) = 0;
    // Returns the current holder; this process counts, too. The check blocks no other process.
    virtual Result<Holder> holder_of(const std::string& name) = 0;
    // Prevents holds while the result lasts, for a removal. Makes a missing file. kUnavailable: a process holds it.
    virtual Result<std::unique_ptr<Lock>> keep_free(const std::string& name) = 0;
};

// True if a `hold` or a `lock` failed because another process holds the lock, or looks at it all the time. Both also
// fail with kUnavailable for lack of memory or of descriptors.
[[nodiscard]] inline bool has_holder(const Status& failed) noexcept {
    return failed.code() == Code::kUnavailable && (failed.sys_errno() == EBUSY || failed.sys_errno() == EAGAIN);
}

inline constexpr Directory::Patience Directory::Patience::kTry{std::chrono::milliseconds(0)};
inline constexpr Directory::Patience Directory::Patience::kWait{std::nullopt};

}   // namespace forebay::io
