// The only door to the operating system's files: one seam with a POSIX, an in-memory and a
// fault-injecting implementation, which all pass the same conformance tests.
//
// Offsets and lengths are bytes. Calls block until the operating system has taken the bytes; none of
// them syncs to a device unless it says so. Thread-safety: all calls may run concurrently on one File;
// overlapping concurrent writes leave either one's bytes.
#pragma once

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

// A shared mapping of a part of a file; ends when destroyed. Bytes stored through it are in the file
// at once for every other reader, and survive the death of the process.
class Mapping {
  public:
    virtual ~Mapping() = default;
    [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }
    // Makes the pages present and writable now, so that storing to them later faults no more. Advice.
    virtual void touch() noexcept = 0;
    // Whether all of `part` can be loaded now, as far as the system knows; it is in memory then. Reads it from the device, if need be.
    [[nodiscard]] virtual bool present(Bytes part) noexcept = 0;

  protected:
    explicit Mapping(MutableBytes bytes) noexcept : bytes_(bytes) {}
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

  private:
    MutableBytes bytes_;
};

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

    virtual Result<std::uint64_t> size() = 0;
    virtual Status resize(std::uint64_t size) = 0;

    // Reserves device space for [offset, offset + length), growing the file: later stores there cannot
    // run out of space.
    virtual Status allocate(std::uint64_t offset, std::uint64_t length) = 0;

    // Gives the space of [offset, offset + length) back; the range reads as zeros, the size stays.
    virtual Status punch(std::uint64_t offset, std::uint64_t length) = 0;

    virtual Result<std::unique_ptr<Mapping>> map(std::uint64_t offset, std::size_t length) = 0;

    // Waits until all that was written is on the device (fdatasync).
    virtual Status sync() = 0;

    // [offset, offset + length) will be synced: the device may begin with it. Advice: nothing that can be seen changes, and
    // what goes wrong is the sync's to tell. May wait for a place in the device's queue.
    virtual void begin_sync(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}
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
    std::uint64_t owner = 0;   // user id
    std::uint32_t mode = 0;    // permission bits
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
    virtual Result<Facts> facts(const std::string& name) = 0;       // "." is the directory itself

    // Excludes everybody else who locks this directory, in this or another process. While somebody else holds the lock the
    // call blocks: not at all (kTry), without end (kWait), or for so long; then it is kUnavailable.
    struct Patience {
        std::optional<std::chrono::milliseconds> at_most;   // none: without end
        static const Patience kTry, kWait;
    };
    virtual Result<std::unique_ptr<Lock>> lock(Patience patience) = 0;
};

inline constexpr Directory::Patience Directory::Patience::kTry{std::chrono::milliseconds(0)};
inline constexpr Directory::Patience Directory::Patience::kWait{std::nullopt};

}   // namespace forebay::io
