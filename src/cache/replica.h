// The replica of one source file on the staging area, as one process uses it.
//
// A sparse file of the source's size on each device of the cache, and the presence map that all processes of the node
// share (presence.h). Readers need neither lock nor memory. Whoever stores claims a unit first; a claim ends with its
// object, and with the process: another process takes over what a dead one had claimed. After a crash at any instant a
// block that counts is whole. Thread-safety: all calls from any thread. Blocks on reads and writes of the staging area;
// `await` for so long at most. replica_open.cc opens replicas, and replica_verify.cc compares them.
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
#include "extent/range.h"
#include "io/file.h"
#include "io/guarded_access.h"
#include "io/process_lock.h"

namespace forebay::cache {

// How many bytes each device holds for the cache, over all its files and processes. Device 0 is the first one.
class Account {
  public:
    virtual ~Account() = default;
    // Of the first device. False: there is no room for so many.
    [[nodiscard]] virtual bool take(std::uint64_t bytes) noexcept = 0;
    virtual void give_back(std::uint64_t bytes) noexcept = 0;
    // Of one device.
    [[nodiscard]] virtual bool take_on(std::uint32_t device, std::uint64_t bytes) noexcept {
        return device == 0 && take(bytes);
    }
    virtual void give_back_on(std::uint32_t device, std::uint64_t bytes) noexcept {
        if (device == 0) give_back(bytes);
    }
    // Takes them on the device that comes next, of `devices`, which has a bit for each. None: no device has room.
    [[nodiscard]] virtual std::optional<std::uint32_t> place(std::uint64_t bytes, std::uint32_t devices) noexcept {
        return (devices & 1) != 0 && take(bytes) ? std::optional<std::uint32_t>(0) : std::nullopt;
    }
    // All further devices that the cache has had. They outlive the account.
    [[nodiscard]] virtual std::span<const PartFolder> parts() const noexcept { return {}; }
    // A temporal replica was closed, and the caller does not count as one of its users any more.
    virtual void temporal_closed() noexcept {}
};

// In the folder of a replica, locked by each process that writes the source.
inline constexpr std::string_view kWriterPrefix = "writer-";
// In the folder of a replica: the path by which its source was opened first, at most so many bytes. For people.
inline constexpr const char* kSourceFile = "source";
inline constexpr std::size_t kSourcePathMax = 4096;

// What is noted in a replica that is made.
struct Keeping {
    std::string path{};      // of the source; empty: unknown
    bool permanent = true;   // false: it goes when nobody has it open. One that is permanent already stays so
    // One that nobody has open is made anew: its file system may have been unmounted since, and another one with the
    // same numbers and times be in its place. As long as a process has the file open, its file system stays.
    bool only_in_use = false;
    // A temporal one stays while this process runs: it starts workers, and later ones may read the file, too.
    std::optional<area::ProcessIdentity> parent{};
    bool make = true;   // false: where there is none of this version, nothing is made
};

class Replica {
  public:
    // Opens the replica of `source` in `folder`, or makes it; one of another version, or a damaged one, is removed
    // first. Its folder is locked meanwhile. Errors are those of the staging area; kNoSpace: the account, or the
    // device, has no room for its map; kNotFound: somebody has removed the folder; kUnavailable: all numbers of owners
    // are taken; with EMFILE, the process has too many maps; with EBUSY, a process writes the source; with ESTALE,
    // there is none of this version, and none was to be made.
    [[nodiscard]] static Result<std::shared_ptr<Replica>> open(std::unique_ptr<io::Directory> folder,
                                                               const Version& source, const area::BootId& boot_id,
                                                               std::uint64_t now_ns, std::shared_ptr<Account> account,
                                                               const Keeping& keeping = {});
    // Opens the one that is there, of whatever version of its source, and does not count as a use. kNotFound: there is
    // none that anything could be read from.
    [[nodiscard]] static Result<std::shared_ptr<Replica>> open_existing(std::unique_ptr<io::Directory> folder,
                                                                        const area::BootId& boot_id,
                                                                        std::shared_ptr<Account> account);
    // Gives its number back. A temporal one that nobody else has open is removed by its account.
    ~Replica();
    Replica(const Replica&) = delete;
    Replica& operator=(const Replica&) = delete;

    [[nodiscard]] const Version& source() const noexcept { return source_; }
    // Another version of the file was seen, or all devices failed: nothing more is read from here or stored.
    [[nodiscard]] bool unusable() const noexcept { return failed_.load(std::memory_order_relaxed) || map_.is_void(); }
    // Of a replica that the process has kept: another file may have it.
    [[nodiscard]] bool may_be_shared() const noexcept { return !unusable() && !lost() && !inherited(); }
    void note_opened(std::uint64_t now_ns) noexcept {
        map_.header().opens.fetch_add(1, std::memory_order_relaxed);
        map_.header().used_ns.store(now_ns, std::memory_order_relaxed);
    }
    void make_void() noexcept { map_.make_void(); }
    // Which one it is, among those of all machines: "/<boot id>/<device>-<inode>", of its bytes. Empty: unknown.
    [[nodiscard]] const std::string& label() const noexcept { return label_; }
    // True, once, after a device has failed. Its units are missing from now on, and are stored elsewhere.
    [[nodiscard]] bool take_fault() noexcept { return parts_.take_fault(); }
    [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return map_.header().all_bytes(); }
    [[nodiscard]] std::uint64_t units() const noexcept { return map_.units(); }
    [[nodiscard]] bool has_any(std::uint64_t unit) const noexcept { return map_.present(unit) != 0; }
    [[nodiscard]] std::uint64_t present_blocks(std::uint64_t unit) const noexcept { return map_.present(unit); }
    [[nodiscard]] bool is_pinned() const noexcept { return (map_.header().flags.load() & kPinned) != 0; }
    // Another process has it open, or nobody can tell. Blocks on the staging area.
    [[nodiscard]] bool has_other_users() const noexcept;
    // A pinned one stays when the cache is full.
    void set_pinned(bool pinned) noexcept {
        if (pinned) map_.header().flags.fetch_or(kPinned);
        else map_.header().flags.fetch_and(~kPinned);
    }
    // For whoever reads it from afar: the map's memory, and the bytes of the source's size, mapped anew. kUnsupported:
    // the bytes lie on several devices.
    [[nodiscard]] io::MutableBytes map_memory() const noexcept { return mapping_->bytes(); }
    [[nodiscard]] Result<std::unique_ptr<io::Mapping>> map_bytes() const;

    // Fills `into` from `offset` on with what is there without a gap, and returns how many bytes that are.
    [[nodiscard]] std::size_t read(std::uint64_t offset, io::MutableBytes into) noexcept;
    // From `offset` on, where the first block that is there begins, at most `end`.
    [[nodiscard]] std::uint64_t end_of_gap(std::uint64_t offset, std::uint64_t end) const noexcept;

    // The right to change one unit.
    class Claim {
      public:
        Claim(std::shared_ptr<Replica> replica, std::uint64_t unit) noexcept
            : replica_(std::move(replica)), unit_(unit) {}
        ~Claim() {
            // A forked child has a copy of its parent's claim.
            if (replica_ != nullptr && !replica_->inherited()) replica_->map_.give_up(unit_);
        }
        Claim(Claim&&) noexcept = default;
        Claim& operator=(Claim&&) = delete;
        [[nodiscard]] std::uint64_t unit() const noexcept { return unit_; }

      private:
        std::shared_ptr<Replica> replica_;
        std::uint64_t unit_;
    };
    // None: another owner has the unit. If its process has died the unit changes hands. Nothing, too, in a forked
    // child: the number is its parent's.
    [[nodiscard]] static std::optional<Claim> claim(const std::shared_ptr<Replica>& replica, std::uint64_t unit);

    // Stores what `bytes`, from `offset` on, has of the claimed unit's blocks, whole blocks only (the last one of the
    // file ends with it), and publishes them. kNoSpace: the account, or the device, is full.
    Status store(const Claim& claim, std::uint64_t offset, io::Bytes bytes);
    // Takes the claimed unit's blocks away, and gives their space back. Returns how many bytes that were.
    Result<std::uint64_t> evict(const Claim& claim);
    // Takes away the claimed unit's blocks that are not what was stored, by their checksums, and those that are not
    // what `source` has, unless that is null. The error is one of reading the source.
    struct Verified {
        std::uint64_t checked_bytes = 0, damaged_bytes = 0, different_bytes = 0;
    };
    Result<Verified> verify(const Claim& claim, io::File* source = nullptr);

    // What was stored before a restart of the machine, in the unit of `offset`: compares the checksums, and takes what
    // fits. False: there is nothing of that kind, or somebody else has the unit. Blocks on a read of the staging area.
    static bool revive(const std::shared_ptr<Replica>& replica, std::uint64_t offset);

    // For `await`: what has arrived so far.
    [[nodiscard]] std::uint32_t arrivals() const noexcept { return map_.header().arrivals.load(); }
    // Returns once something has arrived since `seen`, or the time is over.
    void await(std::uint32_t seen, std::chrono::milliseconds at_most) const noexcept {
        io::wait_while(map_.header().arrivals, seen, at_most);
    }

  private:
    Replica(std::unique_ptr<io::Directory> folder, std::unique_ptr<io::File> bytes,
            std::unique_ptr<io::Mapping> mapping, Presence map, std::shared_ptr<Account> account);

    // Its folder is locked. Parts that are missing are made: never, if no other process has it open, or always.
    enum class MakeParts : std::uint8_t { kNever, kIfAlone, kAlways };
    void open_parts(MakeParts make);
    void drop_device(std::uint32_t device) noexcept;
    [[nodiscard]] Status take_number();
    [[nodiscard]] bool take_over(std::uint64_t unit, std::uint32_t dead);
    // So much less is stored, and the account has it back; not what it has back already, as the replica is void.
    void uncount(std::uint64_t bytes, std::uint32_t device) noexcept;
    // The blocks of a unit that this process can read.
    [[nodiscard]] std::uint64_t readable(std::uint64_t unit) const noexcept {
        const std::uint64_t present = map_.present(unit);
        return parts_.usable(map_.device_of(unit)) ? present : 0;
    }
    // Which blocks of the claimed unit are stored, and with which bytes.
    struct Piece {
        std::uint64_t unit = 0, first = 0, end = 0, offset = 0;
        io::Bytes bytes;
    };
    // Stores those that are missing where the unit is. Puts the unit on another device, if one has room, once its own
    // is full or has failed.
    [[nodiscard]] Status store_piece(const Piece& piece);
    [[nodiscard]] Status write_piece(const Piece& piece, std::uint32_t device, std::uint64_t taken);
    // Takes the unit's blocks away, as another device gets it.
    void leave_device(std::uint64_t unit, std::uint32_t device) noexcept;
    // From `at`, which lies in the unit, on: where the blocks that are there without a gap end.
    [[nodiscard]] std::uint64_t end_of_presence(std::uint64_t unit, std::uint64_t at) const noexcept;
    [[nodiscard]] bool lost() const noexcept { return replaceable_.replaced(); }
    // This is a forked child, and its parent has opened the replica.
    [[nodiscard]] bool inherited() const noexcept { return io::forks_so_far() != forks_; }
    // Of one device. A process without a descriptor left goes on: the next call may have one.
    Status fail(Status why, std::uint32_t device) noexcept {
        if (io::lacks_descriptors(why)) return why;
        const bool is_void = map_.is_void();   // then the device is none the worse for it
        if (!is_void) parts_.fail(device);
        if (is_void || parts_.usable() == 0) failed_.store(true, std::memory_order_relaxed);
        return why;
    }
    // Of a call that changes the replica: it is not void, so the file is its own. kIo: the device has failed.
    [[nodiscard]] Result<std::unique_ptr<io::File>> open_bytes(std::uint32_t device) const;

    std::unique_ptr<io::Directory> folder_;
    ReplicaParts parts_;
    std::unique_ptr<io::Mapping> mapping_;
    io::Replaceable replaceable_;   // a page of the map that faults: the replica has failed
    Presence map_;
    Version source_;
    std::string label_;
    std::shared_ptr<Account> account_;
    std::unique_ptr<io::Lock> number_lock_;
    std::uint32_t number_ = 0;   // of this process, as an owner; 0: none yet
    const std::uint64_t forks_;
    std::atomic<bool> failed_{false};
};

}   // namespace forebay::cache
