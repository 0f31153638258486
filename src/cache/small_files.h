// The copies of small files on the staging area, all in one ring.
//
// A replica has a folder, a map, a lock and a number for each file, which pays for large files. A program that reads
// thousands of small ones keeps whole copies here instead: `data` is a ring of bytes, and `index` is a hash table that
// names the place of each copy by the version of its file. A new copy overwrites the oldest ones, so nothing is listed
// or removed one by one. docs/cache-format.md, "Small files".
//
// No lock protects the ring, and none is needed: a copy counts only if its bytes have the checksum that its slot names,
// and the checksum is seeded with the version of the file. A slot that two processes wrote at once, a copy that was
// overwritten meanwhile, and one that a killed process did not finish all fail that test, and are then misses.
//
// Thread-safety: all calls from any thread, and from any process with the same folder. In a forked child all are
// misses. Calls block on the staging area.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cache/replica.h"
#include "cache/replica_bytes.h"
#include "io/file.h"
#include "io/process_lock.h"

namespace forebay::cache {

// The largest file that has a copy here. One request reads it as fast as the few that HDF5 makes to open it.
inline constexpr std::uint64_t kSmallFileBytes = 256 << 10;
// The folder of the ring, beside those of the replicas. No file has this identity.
inline constexpr const char* kSmallFilesFolder = "0-0";
inline constexpr const char* kSmallIndexFile = "index";
inline constexpr const char* kSmallDataFile = "data";

// Of a version. Never 0.
[[nodiscard]] std::uint64_t small_file_key(const Version& version) noexcept;

class SmallFiles final {
  public:
    // Opens the ring in `folder`, or makes one of at most `ring_bytes`. kNoSpace: the account has no room for the
    // index. kUnavailable: the process has too many mappings already, or another process is at it.
    [[nodiscard]] static Result<std::shared_ptr<SmallFiles>> open(std::unique_ptr<io::Directory> folder,
                                                                  std::uint64_t ring_bytes, bool permanent,
                                                                  std::uint64_t now_ns,
                                                                  std::shared_ptr<Account> account);
    ~SmallFiles();
    SmallFiles(const SmallFiles&) = delete;
    SmallFiles& operator=(const SmallFiles&) = delete;

    // The whole content of the version, or nothing. May throw std::bad_alloc.
    [[nodiscard]] std::optional<std::vector<std::byte>> load(const Version& version);
    // Keeps the content. False: the account has no room, or the staging area failed.
    bool store(const Version& version, io::Bytes content) noexcept;

    // The bytes of the account that the ring in `folder` has taken, as its index says. 0: there is no ring.
    struct View {
        std::uint64_t taken_bytes = 0, used_ns = 0, made_ns = 0, ring_bytes = 0;
        bool permanent = false;
    };
    [[nodiscard]] static std::optional<View> view(io::Directory& folder);

  private:
    struct Header;
    struct Slot;
    SmallFiles(std::unique_ptr<io::Directory> folder, std::unique_ptr<io::File> data,
               std::unique_ptr<io::Mapping> mapping, std::uint64_t ring_bytes, std::shared_ptr<Account> account);
    [[nodiscard]] Status take_number();
    [[nodiscard]] Slot* bucket_of(const Version& version) const noexcept;
    [[nodiscard]] std::optional<std::uint64_t> reserve(std::uint64_t bytes) noexcept;
    [[nodiscard]] bool take_up_to(std::uint64_t end) noexcept;
    [[nodiscard]] bool is_there(std::uint64_t position) const noexcept;
    [[nodiscard]] bool unusable() const noexcept { return replaceable_.replaced() || io::forks_so_far() != forks_; }

    const std::unique_ptr<io::Directory> folder_;
    ReplicaBytes data_;
    const std::unique_ptr<io::Mapping> mapping_;
    const io::Replaceable replaceable_;
    const std::shared_ptr<Account> account_;
    const std::uint64_t ring_bytes_;   // read once: the mapped index may be damaged later
    Header& header_;
    const std::uint64_t forks_;
    std::unique_ptr<io::Lock> number_lock_;
    std::string number_file_;
};

}   // namespace forebay::cache
