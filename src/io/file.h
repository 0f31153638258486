// The only door to the operating system's files: one seam with a POSIX, an in-memory and a
// fault-injecting implementation, which all pass the same conformance tests.
//
// Offsets and lengths are bytes. Calls block until the operating system has taken the bytes; none of
// them syncs to a device unless it says so. Thread-safety: all calls may run concurrently on one File;
// overlapping concurrent writes leave either one's bytes.
#pragma once

#include <atomic>
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

// Stable identity of a file while it exists (st_dev, st_ino).
struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
    friend auto operator<=>(const Identity&, const Identity&) = default;
};

// What tells one file from another that had the same identity before it, and an untouched file from one that was
// written to.
struct FileState {
    std::uint64_t size = 0;
    std::uint64_t modified_ns = 0, changed_ns = 0;   // mtime and ctime, of the machine that keeps the file
    std::uint64_t born_ns = 0;                       // 0: its file system does not tell
    std::uint64_t generation = 0;                    // of the inode number; 0: unknown, or not asked for
    std::uint32_t mode = 0, links = 0, owner = 0, group = 0;
    std::uint64_t mount = 0;   // where it was reached through, never the same again in this boot; 0: unknown
    friend bool operator==(const FileState&, const FileState&) = default;
};

// What the times of a file tell on its file system.
enum class TimesKind : std::uint8_t {
    kUnknown,   // nothing was recorded: the target has no times
    kExact,     // of this machine, and set when the write is: local file systems
    kServed,    // of a server's clock, set before the write returns
    kLazy,      // set at some time after the write, as far as this machine sees: NFS and its like
};

// What can be expected of a file because of the file system that it is on.
struct FileTraits {
    bool local = false;               // known to be on this machine
    bool may_hang = true;             // a call may never return: a server may not answer
    bool page_cache = false;          // a write returns once this machine's memory has it
    std::uint64_t stripe_bytes = 0;   // the unit in which it likes to be written; 0: it names none (io/stripe_size.h)
    TimesKind times = TimesKind::kServed;
    // Identity and state name one content for good: every change changes the times, and no other file ever has the same
    // numbers and times. False where that is not known.
    bool sure_versions = false;
};

// A shared mapping of a part of a file; ends when destroyed. Bytes stored through it are in the file
// at once for every other reader, and survive the death of the process.
class Mapping {
  public:
    virtual ~Mapping() = default;
    [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }
    // Makes the pages of `part` present and writable now, so that storing to them later faults no more. Advice.
    virtual void touch(MutableBytes part) noexcept = 0;
    void touch() noexcept { touch(bytes()); }
    // Whether all of `part` can be loaded now, as far as the system knows; it is in memory then. Reads it from the
    // device, if need be.
    [[nodiscard]] virtual bool present(Bytes part) noexcept = 0;

  protected:
    explicit Mapping(MutableBytes bytes) noexcept : bytes_(bytes) {}
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

  private:
    MutableBytes bytes_;
};

// A part of a mapping that somebody else owns, and that outlives this.
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

class ForwardedTarget;

class File {
  public:
    virtual ~File() = default;
    File() = default;
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    // For messages: the path it was opened by.
    [[nodiscard]] virtual const std::string& name() const noexcept = 0;

    // Reads from `offset` until `into` is full or the file ends; returns the count read.
    virtual Result<std::size_t> read_at(std::uint64_t offset, MutableBytes into) = 0;

    // Writes everything, or fails; after a failure any prefix may have been written.
    virtual Status write_at(std::uint64_t offset, Bytes bytes) = 0;

    // Writes the pieces one after the other as one contiguous range starting at `offset`.
    virtual Status write_gather_at(std::uint64_t offset, std::span<const Bytes> pieces) = 0;

    // Asks the file system, which may ask a server. The default is a file of which nothing is known.
    virtual FileTraits traits() { return {}; }

    // The version of the file: which one it is, its size, and its state with the times.
    virtual Result<Identity> identity() = 0;
    virtual Result<std::uint64_t> size() = 0;
    // kUnsupported: files of this kind have none. `kWithGeneration` asks the file system by an ioctl: of local ones
    // only, others may hand that on to a server. `kOfServer` asks the server, where a client would tell what it has
    // kept.
    enum class Ask : std::uint8_t { kTimes, kWithGeneration, kOfServer };
    virtual Result<FileState> state(Ask /*ask*/ = Ask::kTimes) {
        return Status(Code::kUnsupported, "files of this kind have no times");
    }
    virtual Status resize(std::uint64_t size) = 0;

    // Reserves device space for [offset, offset + length), growing the file: later stores there cannot
    // run out of space.
    virtual Status allocate(std::uint64_t offset, std::uint64_t length) = 0;

    // Gives the space of [offset, offset + length) back; the range reads as zeros, the size stays.
    virtual Status punch(std::uint64_t offset, std::uint64_t length) = 0;

    virtual Result<std::unique_ptr<Mapping>> map(std::uint64_t offset, std::size_t length) = 0;

    // Waits until all that was written is on the device (fdatasync).
    virtual Status sync() = 0;

    // [offset, offset + length) will be synced: the device may begin with it. Advice: nothing that can be seen changes,
    // and what goes wrong is the sync's to tell. May wait for a place in the device's queue.
    virtual void begin_sync(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}

    // From now on it takes no descriptor but for the time of a call: of a file that is rarely asked for anything but
    // what was mapped. No other call may overlap this one.
    virtual void rest() noexcept {}

    // A file whose bytes somebody else stages can do more (io/forwarded_target.h). Null: all others.
    [[nodiscard]] virtual ForwardedTarget* forwarded() noexcept { return nullptr; }
};

enum class OpenMode : std::uint8_t {
    kRead,
    kReadWrite,
    kCreateNew,   // read-write, mode 0600; an existing file is an error
};

// What a name in a directory stands for. A symbolic link is told as such, never followed.
struct Facts {
    enum class Kind : std::uint8_t { kFile, kDirectory, kSymbolicLink, kOther };
    Kind kind = Kind::kOther;
    std::uint64_t owner = 0;                                                         // user id
    std::uint32_t mode = 0;                                                          // permission bits
    static constexpr std::uint32_t kRightsOfOthers = 077, kWritableByOthers = 022;   // bits of it: group and others
    std::uint64_t modified_ns = 0;   // CLOCK_REALTIME, coarse; 0: unknown. A directory's: when an entry came or went
};

// A lock that is held for as long as this lives, or the process does.
class Lock {
  public:
    virtual ~Lock() = default;
    Lock() = default;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
};

// Of a lock that ends with its process. Untold: there is no such file, or one that tells nothing.
enum class Holder : std::uint8_t { kNobody, kSomebody, kUntold };

// A directory by descriptor: names are single components, symbolic links are never followed.
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
    virtual Status remove_directory(const std::string& name) = 0;   // must be empty; nothing can be made in it any more
    virtual Result<std::vector<std::string>> list() = 0;            // sorted, without "." and ".."
    // Waits until all names that were made or removed here are so on the device.
    virtual Status sync() = 0;
    virtual Result<Facts> facts(const std::string& name) = 0;   // "." is the directory itself
    // From now on it takes no descriptor but for the time of a call. No other call may overlap this one.
    virtual void rest() noexcept {}

    // Excludes everybody else who locks this directory, in this or another process. While somebody else holds the lock
    // the call blocks: not at all (kTry), without end (kWait), or for so long; then it is kUnavailable.
    struct Patience {
        std::optional<std::chrono::milliseconds> at_most;   // none: without end
        static const Patience kTry, kWait;
    };
    virtual Result<std::unique_ptr<Lock>> lock(Patience patience) = 0;

    // A file of this name, made if need be, with a lock that lasts as long as the result, at most as long as this image
    // of this process: others see by it that the process lives. kUnavailable: somebody has it.
    virtual Result<std::unique_ptr<Lock>> hold(const std::string& name) = 0;
    // Who has it now, this process included. Blocks nobody.
    virtual Result<Holder> holder_of(const std::string& name) = 0;
    // As long as the result lasts nobody gets it, so that the directory can be removed; the file is made if it is
    // missing. kUnavailable: somebody has it.
    virtual Result<std::unique_ptr<Lock>> keep_free(const std::string& name) = 0;
};

inline constexpr Directory::Patience Directory::Patience::kTry{std::chrono::milliseconds(0)};
inline constexpr Directory::Patience Directory::Patience::kWait{std::nullopt};

}   // namespace forebay::io
