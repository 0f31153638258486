// All replicas of a user on a staging area: the folder `<nls>/forebay-<uid>/cache`, part folders on further devices,
// their accounts, and eviction.
// The store gets only these folders, so it cannot touch a write log. Capacity counts the bytes of blocks and presence
// maps over all files and processes. At the limit it removes unused, unpinned replicas in the order of the policy. A
// temporal replica goes with its last user, after a crash at a later open of the store (docs/read-cache.md, "What
// stays"). Thread-safe. Blocks on metadata of the staging area, and for a bounded time on the folder's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "area/process.h"
#include "base/status.h"
#include "cache/device.h"
#include "cache/replica.h"
#include "cache/replica_view.h"
#include "cache/small_files.h"
#include "io/file.h"

namespace forebay::cache {

enum class Replacement : std::uint8_t { kLru, kLfu, kFifo, kLifo };

// Replicas that one store has open at a time. Each needs a fault-protected mapping, of which a process has 256.
inline constexpr std::size_t kOpenReplicasMax = 128;

struct StoreSetup {
    std::unique_ptr<io::Directory> folder;   // `cache`, of the calling user
    std::uint64_t capacity_bytes = 0;        // 0: for commands that only look and remove
    Replacement replacement = Replacement::kLru;
    area::BootId boot_id{};
    std::uint64_t (*now_ns)() noexcept = nullptr;   // CLOCK_REALTIME
    // Bytes that the device keeps free for write staging, and a function for its free bytes. Unset: not asked.
    std::uint64_t keep_free_bytes = 0;
    std::function<std::uint64_t()> free_bytes = {};
    // Called before an eviction for room: the process gives up kept replicas that it does not use.
    std::function<void()> let_go = {};

    // Further devices, in the order of option `nls`.
    struct Further {
        std::string path;                          // of its part folder
        std::unique_ptr<io::Directory> folder{};   // open on it
        DeviceLimits limits{};
    };
    std::vector<Further> further = {};
    std::size_t filled_first = 0;   // this many devices, from the first one on, are filled before the others
    // Opens part folders of devices that the cache had before. Unset: leave them alone.
    using OpenPart = std::function<Result<std::unique_ptr<io::Directory>>(const std::string& path)>;
    OpenPart open_part = {};
};

class Store final : public std::enable_shared_from_this<Store> {
  public:
    // Some opens look at all replicas (Device::count_is_due): they remove leftovers and, if no other process uses the
    // cache, count the account anew. That regains bytes that killed processes took and did not store. Errors: of the
    // staging area; kCorrupt: the file is no account.
    [[nodiscard]] static Result<std::shared_ptr<Store>> open(StoreSetup setup);
    ~Store();

    // Opens or makes the replica of the file. Errors as of Replica::open; with EMFILE also after kOpenReplicasMax.
    [[nodiscard]] Result<std::shared_ptr<Replica>> replica(const Version& source, const Keeping& keeping = {});
    // Errors as of Replica::open_existing.
    [[nodiscard]] Result<std::shared_ptr<Replica>> existing(const std::string& name);
    // Opens or makes the ring of small files. Errors as of SmallFiles::open; kUnsupported: the capacity is too small.
    [[nodiscard]] Result<std::shared_ptr<SmallFiles>> small_files(bool permanent);
    // Call before the file is written: voids its replica, and none is opened or made while the lock lives. Errors: of
    // the staging area; an existing replica is void even then.
    [[nodiscard]] Result<std::unique_ptr<io::Lock>> begin_writing(const io::Identity& identity);

    // Without unreadable ones.
    [[nodiscard]] std::vector<ReplicaView> list() { return list_replicas(*setup_.folder); }
    // Removes unused replicas in the order of the policy until `bytes` are free, counted on `devices`. Pinned ones stay
    // unless `all`. Removes nothing if fewer than `at_least` could become free. Returns the freed bytes.
    std::uint64_t evict(std::uint64_t bytes, bool all = false, std::uint64_t at_least = 0,
                        std::uint32_t devices = kAllDevices);
    // Empties a replica from list(), pinned or not. Units that a process is changing stay. Errors: of the staging area.
    struct Evicted {
        std::uint64_t bytes = 0, units_left = 0;
        bool removed = false;
    };
    [[nodiscard]] Result<Evicted> evict_one(const std::string& name);
    // The process ends: removes its temporal replica, unless a process has it open or other parents of workers run.
    void leave(const io::Identity& identity);
    [[nodiscard]] std::uint64_t stored_bytes() const noexcept;
    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept;

  private:
    static constexpr std::uint32_t kAllDevices = ~std::uint32_t{0};
    class Share;   // the Account of replicas

    explicit Store(StoreSetup setup) : setup_(std::move(setup)) {}
    Status open_devices();
    void add_device(std::uint32_t number, std::unique_ptr<io::Directory> folder, DeviceLimits limits);
    void count_anew();
    std::size_t count_all();
    [[nodiscard]] bool remove_unneeded(std::vector<ReplicaView>& views);
    void remove_leftover_parts(const std::vector<ReplicaView>& views);
    [[nodiscard]] bool is_leftover_part(const std::string& name, std::uint64_t made_ns);
    enum class Kind : std::uint8_t { kUnit, kMap };
    [[nodiscard]] std::optional<std::uint32_t> place(std::uint64_t bytes, std::uint32_t devices, Kind kind) noexcept;
    [[nodiscard]] std::optional<std::uint32_t> try_place(std::uint64_t bytes, std::uint32_t devices,
                                                         Kind kind) noexcept;
    [[nodiscard]] bool make_room(std::uint64_t bytes, std::uint32_t devices) noexcept;
    void give_back(const ReplicaView& view) noexcept;
    [[nodiscard]] Result<std::unique_ptr<io::Directory>> make_folder(const std::string& name);
    enum class Which : std::uint8_t { kUnused, kLeftover, kOwn };   // kOwn: a leftover, ignoring this process
    std::optional<ReplicaView> remove(const std::string& name, Which which, io::Directory::Patience patience);

    StoreSetup setup_;
    std::array<std::unique_ptr<Device>, kDevicesMax> devices_;   // by number; null: unusable now
    std::vector<PartFolder> parts_;                              // all further devices that the cache ever had
    std::vector<std::uint32_t> order_;                           // devices to fill, in the order of option `nls`
    std::uint32_t filled_first_ = 0;                             // among these, a bit for each that comes first
    std::uint64_t held_for_maps_ = 0;                            // bytes of the first device that units do not take
    std::mutex evicting_;                                        // one thread at a time makes room
    std::atomic<std::uint64_t> refused_bytes_{0};                // since the last removal
    std::atomic<std::size_t> open_replicas_{0};
};

}   // namespace forebay::cache
