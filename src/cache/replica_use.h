// The use of a replica: the processes that have it open, and the marks that all of them see. A process that uses a
// replica has a number, and owns units by it (cache/unit_owners.h). The number is a locked file in the replica's
// folder, so it ends with the process (docs/cache-format.md). The marks are in the map. Invariant: a process without a
// number owns no unit. A forked child has no number: its copy is its parent's. Thread-safe, but `begin` comes first.
// Blocks on the staging area, except for marks, `give_up`, and the claim of a free unit.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cache/presence.h"
#include "io/file.h"
#include "io/process_lock.h"

namespace forebay::cache {

class ReplicaUse {
  public:
    // `folder` and `map` outlive this.
    ReplicaUse(io::Directory& folder, const Presence& map) noexcept
        : folder_(folder), map_(map), forks_(io::forks_so_far()) {}
    ~ReplicaUse() { (void)end(); }
    ReplicaUse(const ReplicaUse&) = delete;
    ReplicaUse& operator=(const ReplicaUse&) = delete;

    // True if a process uses the replica in `folder`, or if that is unknown. A process of another boot is of another
    // machine.
    [[nodiscard]] static bool is_used(io::Directory& folder);
    // Takes a number. Needs the folder's lock. kUnavailable: all numbers are taken.
    [[nodiscard]] Status begin();
    // Gives the number back. Returns false if this process has none.
    bool end() noexcept;
    [[nodiscard]] bool inherited() const noexcept { return io::forks_so_far() != forks_; }
    // True if another process uses the replica, or if that is unknown.
    [[nodiscard]] bool has_others() const noexcept;

    // Makes this process the unit's owner, also after a dead process. False: the unit has another owner, or this
    // process has no number.
    [[nodiscard]] bool claim(std::uint64_t unit);
    void give_up(std::uint64_t unit) noexcept {
        if (!inherited()) map_.owners().give_up(unit);
    }

    void note_opened(std::uint64_t now_ns) const noexcept {
        map_.header().opens.fetch_add(1, std::memory_order_relaxed);
        map_.header().used_ns.store(now_ns, std::memory_order_relaxed);
    }
    [[nodiscard]] bool is_pinned() const noexcept { return (map_.header().flags.load() & kPinned) != 0; }
    void set_pinned(bool pinned) const noexcept {
        if (pinned) map_.header().flags.fetch_or(kPinned);
        else map_.header().flags.fetch_and(~kPinned);
    }

  private:
    io::Directory& folder_;
    const Presence& map_;
    std::unique_ptr<io::Lock> lock_;
    std::uint32_t number_ = 0;   // 0: none
    const std::uint64_t forks_;
};

}   // namespace forebay::cache
