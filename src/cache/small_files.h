// The copies of small files on the staging area, all in one ring (docs/cache-format.md, "Small files").
// A replica's folder, map, lock and number pay for large files only. `data` is a ring of bytes. `index` is a hash table
// with the place of each version's copy. A new copy overwrites the oldest ones, so none is listed or removed singly.
// The ring needs no lock: a copy counts only if its bytes match the checksum in its slot, seeded with the version.
// Slots written by two processes at once, overwritten and incomplete copies are misses, also after a crash.
// Thread-safe, also between processes. In a forked child all calls are misses. Blocks on the staging area.
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

// The largest file with a copy. One request reads it as fast as the few that HDF5 makes at an open.
inline constexpr std::uint64_t kSmallFileBytes = 256 << 10;
// The folder of the ring, beside the replicas' folders. No file has this identity.
inline constexpr const char* kSmallFilesFolder = "0-0";
inline constexpr const char* kSmallIndexFile = "index";
inline constexpr const char* kSmallDataFile = "data";

// Never 0.
[[nodiscard]] std::uint64_t small_file_key(const Version& version) noexcept;

class SmallFiles final {
  public:
    // Opens the ring in `folder`, or makes one of at most `ring_bytes`; first removes a damaged one. kNoSpace: no room
    // for the index. kUnavailable: too many mappings in the process, or another one holds the folder. Other errors are
    // those of the staging area; they leave the ring to other processes.
    [[nodiscard]] static Result<std::shared_ptr<SmallFiles>> open(std::unique_ptr<io::Directory> folder,
                                                                  std::uint64_t ring_bytes, bool permanent,
                                                                  std::uint64_t now_ns,
                                                                  std::shared_ptr<Account> account);
    ~SmallFiles();
    SmallFiles(const SmallFiles&) = delete;
    SmallFiles& operator=(const SmallFiles&) = delete;

    // None: there is no copy. May throw std::bad_alloc.
    [[nodiscard]] std::optional<std::vector<std::byte>> load(const Version& version);
    // False: no room, or the staging area failed.
    bool store(const Version& version, io::Bytes content) noexcept;

    // The bytes that the ring in `folder` takes, from its index. kNotFound, kInvalidArgument, kCorrupt: there is no
    // ring. Other errors, of the staging area, tell nothing about it.
    struct View {
        std::uint64_t taken_bytes = 0, used_ns = 0, made_ns = 0, ring_bytes = 0;
        bool permanent = false;
    };
    [[nodiscard]] static Result<View> view(io::Directory& folder);

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
