// The replica of one source file on the staging area, as one process uses it.
// A sparse file of the source's size on each device of the cache, and the presence map that the node's processes share
// (presence.h). Reads take no lock and no memory. A process claims a unit before it stores. A claim ends with its
// object and with the process; other processes take over a dead one's claims. After a crash at any instant all blocks
// that count are complete. Invariant: a read returns only bytes that lie in memory, or whose blocks
// equal their checksums (cache/compared_read.h). Thread-safe. Blocks on the staging area; `await` up to its limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "cache/presence.h"
#include "cache/replica_parts.h"
#include "cache/replica_use.h"
#include "extent/range.h"
#include "io/file.h"
#include "io/guarded_access.h"

namespace forebay::cache {

// The bytes that each device holds for the cache, over all files and processes. Device 0 is the first one.
class Account {
  public:
    virtual ~Account() = default;
    // False: the first device has no room.
    [[nodiscard]] virtual bool take(std::uint64_t bytes) noexcept = 0;
    virtual void give_back(std::uint64_t bytes) noexcept = 0;
    [[nodiscard]] virtual bool take_on(std::uint32_t device, std::uint64_t bytes) noexcept {
        return device == 0 && take(bytes);
    }
    virtual void give_back_on(std::uint32_t device, std::uint64_t bytes) noexcept {
        if (device == 0) give_back(bytes);
    }
    // Takes bytes on the next device among `devices`, a bit for each. None: no device has room.
    [[nodiscard]] virtual std::optional<std::uint32_t> place(std::uint64_t bytes, std::uint32_t devices) noexcept {
        return (devices & 1) != 0 && take(bytes) ? std::optional<std::uint32_t>(0) : std::nullopt;
    }
    // All further devices that the cache ever had. They outlive the account.
    [[nodiscard]] virtual std::span<const PartFolder> parts() const noexcept { return {}; }
    // A temporal replica was closed; the caller no longer counts as its user.
    virtual void temporal_closed() noexcept {}
};

// A file in the folder of a replica, locked by each process that writes the source.
inline constexpr std::string_view kWriterPrefix = "writer-";
// A file in the folder of a replica, for people: the path of the source's first open, at most kSourcePathMax bytes.
inline constexpr const char* kSourceFile = "source";
inline constexpr std::size_t kSourcePathMax = 4096;

struct Keeping {
    std::string path{};      // of the source; empty: unknown
    bool permanent = true;   // false: removed when unused; an existing permanent one stays permanent
    // Makes an unused replica anew: its file system may have been unmounted, and another one have its numbers and
    // times. It stays mounted while a process has a file of it open.
    bool only_in_use = false;
    // Keeps a temporal replica while this process runs: its later workers may read the file too.
    std::optional<area::ProcessIdentity> parent{};
    bool make = true;   // false: make none if there is none of this version
};

// The open files of a replica. A page of the map that faults is replaced; then the replica has failed.
struct ReplicaFiles {
    std::unique_ptr<io::File> bytes;
    std::unique_ptr<io::Mapping> mapping;
    std::unique_ptr<io::Replaceable> replaceable;   // of the mapping
};

class Replica : public std::enable_shared_from_this<Replica> {
  public:
    // Opens or makes the replica of `source` in `folder`, under the folder's lock. First removes one of another
    // version, or a damaged one. Errors: of the staging area; kNoSpace: no room for the map; kNotFound: the folder was
    // removed; kIo: the map faults. kUnavailable: all owner numbers are taken; with EMFILE: too many maps; with EBUSY:
    // a process writes the source; with ESTALE: there is none of this version, and `keeping.make` is false.
    [[nodiscard]] static Result<std::shared_ptr<Replica>> open(std::unique_ptr<io::Directory> folder,
                                                               const Version& source, const area::BootId& boot_id,
                                                               std::uint64_t now_ns, std::shared_ptr<Account> account,
                                                               const Keeping& keeping = {});
    // Opens an existing replica of any version, without counting a use. kNotFound: there is none with readable bytes.
    [[nodiscard]] static Result<std::shared_ptr<Replica>> open_existing(std::unique_ptr<io::Directory> folder,
                                                                        const area::BootId& boot_id,
                                                                        std::shared_ptr<Account> account);
    // Ends the use. The account removes an unused temporal replica.
    ~Replica();
    Replica(const Replica&) = delete;
    Replica& operator=(const Replica&) = delete;

    [[nodiscard]] const Version& source() const noexcept { return source_; }
    // True if another version was seen, or all devices failed: nothing is read or stored.
    [[nodiscard]] bool unusable() const noexcept { return failed_.load(std::memory_order_relaxed) || map_.is_void(); }
    // True if a kept replica may serve another open.
    [[nodiscard]] bool may_be_shared() const noexcept { return !unusable() && !lost() && !use_.inherited(); }
    [[nodiscard]] const ReplicaUse& use() const noexcept { return use_; }
    void make_void() noexcept { map_.make_void(); }
    // Identifies the bytes among all machines: "/<boot id>/<device>-<inode>". Empty: unknown.
    [[nodiscard]] const std::string& label() const noexcept { return label_; }
    // Returns true once after a device lost blocks, or failed: then its units are missing, and are stored on others.
    [[nodiscard]] bool take_fault() noexcept { return parts_.take_fault(); }
    [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return map_.header().all_bytes(); }
    [[nodiscard]] std::uint64_t units() const noexcept { return map_.units(); }
    [[nodiscard]] std::uint64_t present_blocks(std::uint64_t unit) const noexcept { return map_.present(unit); }
    // For remote readers: the map, and a new mapping of the bytes. kUnsupported: the bytes are on several devices.
    [[nodiscard]] io::MutableBytes map_memory() const noexcept { return files_.mapping->bytes(); }
    [[nodiscard]] Result<std::unique_ptr<io::Mapping>> map_bytes() const;

    // Fills `into` from `offset` on with present bytes, up to the first gap. Returns their number. Drops lost blocks,
    // which end the read; `take_fault` tells.
    [[nodiscard]] std::size_t read(std::uint64_t offset, io::MutableBytes into) noexcept;
    // The offset of the first present block from `offset` on, at most `end`.
    [[nodiscard]] std::uint64_t end_of_gap(std::uint64_t offset, std::uint64_t end) const noexcept;

    class Claim {
      public:
        Claim(std::shared_ptr<Replica> replica, std::uint64_t unit) noexcept
            : replica_(std::move(replica)), unit_(unit) {}
        ~Claim() {
            if (replica_ != nullptr) replica_->use_.give_up(unit_);
        }
        Claim(Claim&&) noexcept = default;
        Claim& operator=(Claim&&) = delete;
        [[nodiscard]] std::uint64_t unit() const noexcept { return unit_; }

      private:
        std::shared_ptr<Replica> replica_;
        std::uint64_t unit_;
    };
    // Also from a dead process. None: the unit has another owner, or this is a forked child.
    [[nodiscard]] static std::optional<Claim> claim(const std::shared_ptr<Replica>& replica, std::uint64_t unit);

    // Stores and publishes the whole blocks of `bytes` (the last ends with the file). kNoSpace: no room.
    Status store(const Claim& claim, std::uint64_t offset, io::Bytes bytes);
    // Returns the bytes freed.
    Result<std::uint64_t> evict(const Claim& claim);
    // Removes the unit's blocks with a wrong checksum, or different from a given `source`. Errors: of the source.
    struct Verified {
        std::uint64_t checked_bytes = 0, damaged_bytes = 0, different_bytes = 0;
    };
    Result<Verified> verify(const Claim& claim, io::File* source = nullptr);

    // Compares blocks from before a restart, in the unit of `offset`, with their checksums, and publishes matching
    // ones. False: none matched. Blocks on a read of the staging area.
    static bool revive(const std::shared_ptr<Replica>& replica, std::uint64_t offset);

    // For `await`: a count of arrivals.
    [[nodiscard]] std::uint32_t arrivals() const noexcept { return map_.header().arrivals.load(); }
    // Returns once the count differs from `seen`, or after `at_most`.
    void await(std::uint32_t seen, std::chrono::milliseconds at_most) const noexcept {
        io::wait_while(map_.header().arrivals, seen, at_most);
    }

  private:
    Replica(std::unique_ptr<io::Directory> folder, ReplicaFiles files, Presence map, std::shared_ptr<Account> account);

    // Needs the folder's lock. Makes missing parts: never, if no other process has the replica open, or always.
    enum class MakeParts : std::uint8_t { kNever, kIfAlone, kAlways };
    void open_parts(MakeParts make);
    // Opens the parts, and makes this process an owner. Needs the folder's lock. kIo: the map cannot be reached.
    [[nodiscard]] Status begin_use(MakeParts make);
    void drop_device(std::uint32_t device) noexcept;
    void drop_lost(std::uint64_t unit, std::uint32_t device) noexcept;
    // Subtracts bytes and gives them back to the account, unless that was done when the replica became void.
    void uncount(std::uint64_t bytes, std::uint32_t device) noexcept;
    [[nodiscard]] std::uint64_t readable(std::uint64_t unit) const noexcept {
        const std::uint64_t present = map_.present(unit);
        return parts_.usable(map_.device_of(unit)) ? present : 0;
    }
    struct Piece {
        std::uint64_t unit = 0, first = 0, end = 0, offset = 0;
        io::Bytes bytes;
    };
    // Moves the unit to another device with room if its own is full or failed.
    [[nodiscard]] Status store_piece(const Piece& piece);
    [[nodiscard]] Status write_piece(const Piece& piece, std::uint32_t device, std::uint64_t taken);
    void leave_device(std::uint64_t unit, std::uint32_t device) noexcept;
    [[nodiscard]] std::uint64_t end_of_presence(std::uint64_t unit, std::uint64_t at) const noexcept;
    [[nodiscard]] bool lost() const noexcept { return files_.replaceable->replaced(); }
    // Notes a failure of one device. A lack of descriptors is none: the next call may have one.
    Status fail(Status why, std::uint32_t device) noexcept {
        if (io::lacks_descriptors(why)) return why;
        const bool is_void = map_.is_void();   // not the device's fault
        if (!is_void) parts_.fail(device);
        if (is_void || parts_.usable() == 0) failed_.store(true, std::memory_order_relaxed);
        return why;
    }
    // Opens the bytes for a change, if the replica is not void and the file is its own. kIo: the device has failed.
    [[nodiscard]] Result<std::unique_ptr<io::File>> open_bytes(std::uint32_t device) const;

    std::unique_ptr<io::Directory> folder_;
    ReplicaFiles files_;   // without the bytes, which are the first part
    ReplicaParts parts_;
    Presence map_;
    Version source_;
    std::string label_;
    std::shared_ptr<Account> account_;
    ReplicaUse use_;
    std::atomic<bool> failed_{false};
};

// Evicts the present units, pinned or not, except those of other owners. Blocks on the staging area.
struct EvictedUnits {
    std::uint64_t bytes = 0, units_left = 0;
};
[[nodiscard]] Result<EvictedUnits> evict_units(const std::shared_ptr<Replica>& replica);

}   // namespace forebay::cache
