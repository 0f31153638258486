// All replicas of a user on a staging area: the folder `<nls>/forebay-<uid>/cache`, the part folders on further
// devices, their accounts, and what has to go when they are full.
//
// The store is given these folders and no others, so it cannot touch a write log. Capacity counts the bytes of blocks
// and of presence maps, over all files and processes. When it is used up, replicas that nobody has open go, in the
// order of the policy; those that are pinned, and those in use, stay. A temporal one goes when its last user closes it;
// if its users have died, whoever opens the store next removes it. docs/read-cache.md, "What stays".
//
// Thread-safety: all calls from any thread. They block on metadata of the staging area, and on the folder's lock, which
// is held for so long at most.
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

// Replicas that one store has open at a time: each takes a mapping that is protected from faults, of which a process
// has 256.
inline constexpr std::size_t kOpenReplicasMax = 128;

struct StoreSetup {
    std::unique_ptr<io::Directory> folder;   // `cache`, of the calling user
    std::uint64_t capacity_bytes = 0;        // 0: of whoever only looks and removes; nothing can be stored
    Replacement replacement = Replacement::kLru;
    area::BootId boot_id{};
    std::uint64_t (*now_ns)() noexcept = nullptr;   // CLOCK_REALTIME
    // Bytes that the device must keep free for write staging; what it has free now. Unset: not asked.
    std::uint64_t keep_free_bytes = 0;
    std::function<std::uint64_t()> free_bytes = {};
    // Called before something is removed to make room: the process gives up replicas that it keeps and does not use.
    std::function<void()> let_go = {};

    // Further devices, in the order of option `nls`.
    struct Further {
        std::string path;                          // of its part folder
        std::unique_ptr<io::Directory> folder{};   // open on it
        DeviceLimits limits{};
    };
    std::vector<Further> further = {};
    std::size_t filled_first = 0;   // so many devices, from the first one on, are filled before the others
    // Opens part folders of devices that the cache has had before. Unset: they are left alone.
    using OpenPart = std::function<Result<std::unique_ptr<io::Directory>>(const std::string& path)>;
    OpenPart open_part = {};
};

class Store final : public std::enable_shared_from_this<Store> {
  public:
    // Opens the account, or makes it. Where nobody else uses the cache it is counted anew: what a process that was
    // killed had taken and not stored comes back. Errors: of the staging area; kCorrupt, if the account is none.
    [[nodiscard]] static Result<std::shared_ptr<Store>> open(StoreSetup setup);
    ~Store();

    // That of the file, opened or made. Errors as of Replica::open; with EMFILE, too: kOpenReplicasMax are open
    // already.
    [[nodiscard]] Result<std::shared_ptr<Replica>> replica(const Version& source, const Keeping& keeping = {});
    // One of list(). Errors as of Replica::open_existing.
    [[nodiscard]] Result<std::shared_ptr<Replica>> existing(const std::string& name);
    // The ring of copies of small files, opened or made. Errors as of SmallFiles::open; kUnsupported: the capacity is
    // too small for one.
    [[nodiscard]] Result<std::shared_ptr<SmallFiles>> small_files(bool permanent);
    // The file is written: whoever has its replica open reads nothing more from it, and as long as the lock lives
    // nobody opens or makes one. Errors: of the staging area; the replica is void all the same, if there is one.
    [[nodiscard]] Result<std::unique_ptr<io::Lock>> begin_writing(const io::Identity& identity);

    // What cannot be read is left out.
    [[nodiscard]] std::vector<ReplicaView> list() { return list_replicas(*setup_.folder); }
    // Removes those that nobody uses, in the order of the policy, until so many bytes are free of it; pinned ones stay
    // unless `all`. Removes nothing if fewer than `at_least` could become free. Returns the bytes.
    // `devices`: only bytes on these count.
    std::uint64_t evict(std::uint64_t bytes, bool all = false, std::uint64_t at_least = 0,
                        std::uint32_t devices = kAllDevices);
    // Empties one of list(), pinned or not. One that nobody uses is removed; of one in use, those units stay that
    // somebody is just changing. Errors: of the staging area.
    struct Evicted {
        std::uint64_t bytes = 0, units_left = 0;
        bool removed = false;
    };
    [[nodiscard]] Result<Evicted> evict_one(const std::string& name);
    // The calling process ends: removes the file's replica if it is temporal, unless a process has it open or other
    // parents of workers run.
    void leave(const io::Identity& identity);
    // Over all devices.
    [[nodiscard]] std::uint64_t stored_bytes() const noexcept;
    // Of the devices that this store was given.
    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept;

  private:
    static constexpr std::uint32_t kAllDevices = ~std::uint32_t{0};
    class Share;   // the Account that replicas have

    explicit Store(StoreSetup setup) : setup_(std::move(setup)) {}
    Status open_devices();
    void add_device(std::uint32_t number, std::unique_ptr<io::Directory> folder, DeviceLimits limits);
    void count_anew();
    void count_all();
    void remove_leftover_parts(const std::vector<ReplicaView>& views);
    [[nodiscard]] bool is_leftover_part(const std::string& name, std::uint64_t made_ns);
    enum class Kind : std::uint8_t { kUnit, kMap };
    [[nodiscard]] std::optional<std::uint32_t> place(std::uint64_t bytes, std::uint32_t devices, Kind kind) noexcept;
    [[nodiscard]] std::optional<std::uint32_t> try_place(std::uint64_t bytes, std::uint32_t devices,
                                                         Kind kind) noexcept;
    [[nodiscard]] bool make_room(std::uint64_t bytes, std::uint32_t devices) noexcept;
    void give_back(const ReplicaView& view) noexcept;
    [[nodiscard]] Result<std::unique_ptr<io::Directory>> make_folder(const std::string& name);
    enum class Which : std::uint8_t { kUnused, kLeftover, kOwn };   // kOwn: a leftover without this process
    std::optional<ReplicaView> remove(const std::string& name, Which which, io::Directory::Patience patience);

    StoreSetup setup_;
    std::array<std::unique_ptr<Device>, kDevicesMax> devices_;   // by their numbers; null: cannot be used now
    std::vector<PartFolder> parts_;                              // of all further devices that the cache has had
    std::vector<std::uint32_t> order_;                           // the devices to be filled, as option `nls` has them
    std::uint32_t filled_first_ = 0;                             // of these, a bit for each that comes first
    std::uint64_t held_for_maps_ = 0;                            // of the first device, bytes that units do not take
    std::mutex evicting_;                                        // one thread at a time makes room
    std::atomic<std::uint64_t> refused_bytes_{0};                // since something was removed
    std::atomic<std::size_t> open_replicas_{0};
};

}   // namespace forebay::cache
