// One device of the read cache: its account, shared by all processes, and its free space. Thread-safe. `open` blocks on
// metadata; `take` sometimes blocks to ask for the device's free space.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "io/guarded_access.h"

namespace forebay::cache {

struct DeviceLimits {
    std::uint64_t capacity_bytes = 0;   // 0: store nothing
    // Bytes that the device must keep free, and a function for its free bytes. Unset: not asked.
    std::uint64_t keep_free_bytes = 0;
    std::function<std::uint64_t()> free_bytes = {};
};

struct AccountView {
    std::uint64_t stored_bytes = 0, capacity_bytes = 0;   // capacity: of the process that opened it last; 0: unknown
};
// With n replicas every n/32nd open looks at all, and at least every 1,024th (Device::count_is_due).
inline constexpr std::uint64_t kLooksPerOpen = 32;
// Reads the account in `folder`. kNotFound: there is none. Changes nothing.
[[nodiscard]] Result<AccountView> read_account(io::Directory& folder);

class Device {
  public:
    // The caller has locked `folder`. Errors: of the staging area; kCorrupt: the file is no account.
    [[nodiscard]] static Result<std::unique_ptr<Device>> open(io::Directory& folder, DeviceLimits limits);

    [[nodiscard]] bool take(std::uint64_t bytes) noexcept;
    void give_back(std::uint64_t bytes) noexcept;
    [[nodiscard]] std::uint64_t stored_bytes() const noexcept;
    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return limits_.capacity_bytes; }
    [[nodiscard]] std::uint64_t room_bytes() const noexcept {
        return limits_.capacity_bytes - std::min(stored_bytes(), limits_.capacity_bytes);
    }
    [[nodiscard]] double use() const noexcept {
        return static_cast<double>(stored_bytes()) / static_cast<double>(limits_.capacity_bytes);
    }
    // Sets the stored bytes to `counted` if they still are `stored`.
    void set_stored(std::uint64_t stored, std::uint64_t counted) noexcept;
    // Notes an open of the cache. Returns true if it should look at all replicas. The more there were, the more opens
    // come in between.
    [[nodiscard]] bool count_is_due() noexcept;
    // Claims the recount of all stored bytes, until `end_count` or for ten seconds. False: another process has it.
    [[nodiscard]] bool begin_count(std::uint64_t now_ns) noexcept;
    // `replicas`: how many it looked at.
    void end_count(std::uint64_t replicas) noexcept;

  private:
    struct Book;                                                         // the account's shared bytes
    static constexpr std::uint64_t kAskFirst = std::uint64_t{1} << 40;   // ask the device before the first byte

    explicit Device(DeviceLimits limits) : limits_(std::move(limits)) {}
    [[nodiscard]] Status open_book(io::Directory& folder);
    [[nodiscard]] bool has_room(std::uint64_t bytes) noexcept;

    const DeviceLimits limits_;
    std::unique_ptr<io::Mapping> mapping_;
    Book* book_ = nullptr;
    std::unique_ptr<io::Replaceable> replaceable_;   // a fault in the mapping does not end the program
    std::atomic<std::uint64_t> taken_since_look_{kAskFirst};
};

// The paths of a cache's part folders: line n is further device n (docs/cache-format.md). None if unreadable.
[[nodiscard]] std::vector<std::string> read_devices(io::Directory& cache);
// The numbers of these paths; adds new ones. Needs the lock of `cache`. kNoSpace: too many devices.
[[nodiscard]] Result<std::vector<std::uint32_t>> note_devices(io::Directory& cache,
                                                              const std::vector<std::string>& paths);

}   // namespace forebay::cache
