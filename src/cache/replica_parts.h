// The files with the bytes of one replica, one on each device (docs/cache-format.md, "Further devices").
// Device 0 has the replica's folder. A device whose file fails counts as failed for this process and this replica.
// Thread-safe, but `add` comes first. Blocks as ReplicaBytes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "cache/presence.h"
#include "cache/replica_bytes.h"
#include "io/file.h"

namespace forebay::cache {

// A further device of a cache. Without a folder it is unusable now.
struct PartFolder {
    std::uint32_t device = 0;
    std::shared_ptr<io::Directory> folder;
};

// "<device>-<inode>", in hexadecimal.
[[nodiscard]] std::string replica_name(const io::Identity& identity);
// The name of a replica's file in a part folder; `made_ns` is that of its map.
[[nodiscard]] std::string part_name(const io::Identity& source, std::uint64_t made_ns);

class ReplicaParts {
  public:
    // `bytes` is the open file of this name in `folder`, which outlives this.
    ReplicaParts(io::Directory& folder, std::string name, std::unique_ptr<io::File> bytes);
    void add(const PartFolder& where, std::string name, std::unique_ptr<io::File> bytes);

    [[nodiscard]] const io::Identity& first_identity() const noexcept { return parts_[0]->identity(); }
    [[nodiscard]] bool several() const noexcept { return opened_ != 1; }
    [[nodiscard]] bool has(std::uint32_t device) const noexcept {
        return device < kDevicesMax && (opened_ >> device & 1) != 0;
    }
    [[nodiscard]] std::uint32_t usable() const noexcept { return opened_ & ~failed_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool usable(std::uint32_t device) const noexcept {
        return device < kDevicesMax && (usable() >> device & 1) != 0;
    }
    // From now on the device is unusable.
    void fail(std::uint32_t device) noexcept;
    [[nodiscard]] bool take_fault() noexcept {
        return untold_.load(std::memory_order_relaxed) && untold_.exchange(false, std::memory_order_relaxed);
    }

    // Notes that the device has lost bytes of a unit. Returns true if it has failed by that: it lost too many.
    [[nodiscard]] bool note_loss(std::uint32_t device) noexcept;

    [[nodiscard]] ReplicaBytes& bytes_on(std::uint32_t device) noexcept { return *parts_[device]; }
    [[nodiscard]] Result<std::unique_ptr<io::File>> open(std::uint32_t device) const { return parts_[device]->open(); }

  private:
    std::array<std::shared_ptr<io::Directory>, kDevicesMax> folders_;   // of further devices
    std::array<std::unique_ptr<ReplicaBytes>, kDevicesMax> parts_;
    std::uint32_t opened_ = 1;
    std::atomic<std::uint32_t> failed_{0};
    std::array<std::atomic<std::uint32_t>, kDevicesMax> losses_{};
    std::atomic<bool> untold_{false};
};

}   // namespace forebay::cache
