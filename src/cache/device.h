// One device of the read cache: its account, which all processes share, and whether the device has room.
//
// Thread-safety: all calls from any thread. Only `open` blocks, on metadata, and `take` once in a while, on the
// question of what is free.
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
    std::uint64_t capacity_bytes = 0;   // 0: nothing can be stored
    // Bytes that the device must keep free; what it has free now. Unset: not asked.
    std::uint64_t keep_free_bytes = 0;
    std::function<std::uint64_t()> free_bytes = {};
};

struct AccountView {
    std::uint64_t stored_bytes = 0, capacity_bytes = 0;   // capacity: of the process that opened it last; 0: unknown
};
// That in the folder. kNotFound: there is none. Changes nothing.
[[nodiscard]] Result<AccountView> read_account(io::Directory& folder);

class Device {
  public:
    // Opens the account in `folder`, or makes it. Somebody locks others out meanwhile. Errors: of the staging area;
    // kCorrupt, if the account is none.
    [[nodiscard]] static Result<std::unique_ptr<Device>> open(io::Directory& folder, DeviceLimits limits);

    // False: the account or the device has no room.
    [[nodiscard]] bool take(std::uint64_t bytes) noexcept;
    void give_back(std::uint64_t bytes) noexcept;
    [[nodiscard]] std::uint64_t stored_bytes() const noexcept;
    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return limits_.capacity_bytes; }
    [[nodiscard]] std::uint64_t room_bytes() const noexcept {
        return limits_.capacity_bytes - std::min(stored_bytes(), limits_.capacity_bytes);
    }
    // Part of the capacity that is used.
    [[nodiscard]] double use() const noexcept {
        return static_cast<double>(stored_bytes()) / static_cast<double>(limits_.capacity_bytes);
    }
    // What was counted anew, unless something else has changed since `stored` was looked at.
    void set_stored(std::uint64_t stored, std::uint64_t counted) noexcept;
    // False: another process counts. True: until `end_count` others are told so, for ten seconds at most.
    [[nodiscard]] bool begin_count(std::uint64_t now_ns) noexcept;
    void end_count() noexcept;

  private:
    struct Book;                                                         // the account's bytes, shared
    static constexpr std::uint64_t kAskFirst = std::uint64_t{1} << 40;   // the device is asked before the first byte

    explicit Device(DeviceLimits limits) : limits_(std::move(limits)) {}
    [[nodiscard]] Status open_book(io::Directory& folder);
    [[nodiscard]] bool has_room(std::uint64_t bytes) noexcept;

    const DeviceLimits limits_;
    std::unique_ptr<io::Mapping> mapping_;
    Book* book_ = nullptr;
    std::unique_ptr<io::Replaceable> replaceable_;
    std::atomic<std::uint64_t> taken_since_look_{kAskFirst};
};

// The further devices of a cache: the paths of their part folders, of which the one on line n is device n
// (docs/cache-format.md). Nothing can be read: none.
[[nodiscard]] std::vector<std::string> read_devices(io::Directory& cache);
// The numbers of these, which are noted if they are new. Under the lock of `cache`. kNoSpace: there are too many.
[[nodiscard]] Result<std::vector<std::uint32_t>> note_devices(io::Directory& cache,
                                                              const std::vector<std::string>& paths);

}   // namespace forebay::cache
