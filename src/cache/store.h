// All replicas of a user on a staging area: the folder `<nls>/forebay-<uid>/cache`, its account, and what has to go
// when it is full.
//
// The store is given that folder and no other, so it cannot touch a write log. Capacity counts the bytes of blocks and
// of presence maps, over all files and processes. When it is used up, replicas that nobody has open go, in the order of
// the policy; those that are pinned, and those in use, stay. A temporal one goes when its last user closes it; if its
// users have died, whoever opens the store next removes it. docs/read-cache.md, "What stays".
//
// Thread-safety: all calls from any thread. They block on metadata of the staging area, and on the folder's lock, which
// is held for so long at most.
#pragma once

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
#include "cache/replica.h"
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
};

// One replica, as commands show it. What its files say is believed only as far as it is possible.
struct ReplicaView {
    std::string name;   // of its folder: "<device>-<inode>"
    std::string path;   // of the source, when it was opened first: any bytes; empty: unknown
    Version source;
    std::uint64_t stored_bytes = 0, map_bytes = 0, opens = 0, used_ns = 0, made_ns = 0;
    bool in_use = false, pinned = false, permanent = false;
    // kUnknown: there is a map, and it is none of this version of the format.
    enum class State : std::uint8_t { kNone, kUnknown, kVoid, kValid } state = State::kNone;

    // Of the account.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return stored_bytes + map_bytes; }
    // Nobody has any use for it.
    [[nodiscard]] bool is_leftover() const noexcept {
        return !in_use &&
               (state == State::kNone || state == State::kVoid || (state == State::kValid && !permanent && !pinned));
    }
};
// Those in the folder `cache`; what cannot be read is left out. Changes nothing.
[[nodiscard]] std::vector<ReplicaView> list_replicas(io::Directory& cache);

struct AccountView {
    std::uint64_t stored_bytes = 0, capacity_bytes = 0;   // capacity: of the process that opened it last; 0: unknown
};
// kNotFound: there is none. Changes nothing.
[[nodiscard]] Result<AccountView> read_account(io::Directory& cache);

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
    std::uint64_t evict(std::uint64_t bytes, bool all = false, std::uint64_t at_least = 0);
    // Empties one of list(), pinned or not. One that nobody uses is removed; of one in use, those units stay that
    // somebody is just changing. Errors: of the staging area.
    struct Evicted {
        std::uint64_t bytes = 0, units_left = 0;
        bool removed = false;
    };
    [[nodiscard]] Result<Evicted> evict_one(const std::string& name);
    [[nodiscard]] std::uint64_t stored_bytes() const noexcept;
    [[nodiscard]] std::uint64_t capacity_bytes() const noexcept { return setup_.capacity_bytes; }

  private:
    struct Book;                                                         // the account's bytes, shared
    static constexpr std::uint64_t kAskFirst = std::uint64_t{1} << 40;   // the device is asked before the first byte
    class Share;                                                         // the Account that replicas have

    explicit Store(StoreSetup setup) : setup_(std::move(setup)) {}
    Status open_book();
    void count_anew();
    void count_all();
    bool take(std::uint64_t bytes) noexcept;
    void give_back(std::uint64_t bytes) noexcept;
    [[nodiscard]] bool device_has_room(std::uint64_t bytes) noexcept;
    [[nodiscard]] Result<std::unique_ptr<io::Directory>> make_folder(const std::string& name);
    enum class Which : std::uint8_t { kUnused, kLeftover };
    std::optional<std::uint64_t> remove(const std::string& name, Which which, io::Directory::Patience patience);

    StoreSetup setup_;
    std::unique_ptr<io::Mapping> mapping_;
    Book* book_ = nullptr;
    std::unique_ptr<io::Replaceable> replaceable_;
    std::mutex evicting_;   // one thread at a time makes room
    std::atomic<std::uint64_t> taken_since_look_{kAskFirst};
    std::atomic<std::uint64_t> refused_bytes_{0};   // since something was removed
    std::atomic<std::size_t> open_replicas_{0};
};

// "<device>-<inode>", in hexadecimal.
[[nodiscard]] std::string replica_name(const io::Identity& identity);

}   // namespace forebay::cache
