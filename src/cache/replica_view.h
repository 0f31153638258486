// Views of replicas, for commands and the cleanup of the cache. No call changes or maps a file, so a damaged replica
// cannot fault. Thread-safe. Blocks on metadata of the staging area.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cache/presence.h"
#include "io/file.h"

namespace forebay::cache {

// One replica, as commands show it. Impossible values are cut to possible ones.
struct ReplicaView {
    std::string name;   // of its folder: "<device>-<inode>"
    std::string path;   // of the source at its first open: any bytes; empty: unknown
    Version source;
    std::uint64_t stored_bytes = 0, map_bytes = 0, opens = 0, used_ns = 0, made_ns = 0;
    std::array<std::uint64_t, kDevicesMax> device_bytes{};   // stored_bytes, by device
    bool in_use = false, pinned = false, permanent = false;
    bool has_parent = false;   // used by workers of a running process
    // kNone: no map; kUnknown: the map is not of this version of the format.
    enum class State : std::uint8_t { kNone, kUnknown, kVoid, kValid } state = State::kNone;

    [[nodiscard]] std::uint64_t bytes() const noexcept { return stored_bytes + map_bytes; }
    [[nodiscard]] std::uint64_t bytes_on(std::uint32_t device) const noexcept {
        return device_bytes[device] + (device == 0 ? map_bytes : 0);
    }
    // True if no process uses the replica, and it is neither permanent nor pinned.
    [[nodiscard]] bool is_leftover() const noexcept {
        return !in_use && !has_parent &&
               (state == State::kNone || state == State::kVoid || (state == State::kValid && !permanent && !pinned));
    }
};

// True if a folder of this name may hold a replica. The cache removes no other folder.
[[nodiscard]] bool is_replica_name(std::string_view name);
// The replica in `folder`, without the path of its source. `without_own`: `has_parent` ignores this process. Errors: of
// the staging area. A missing or damaged map is no error.
[[nodiscard]] Result<ReplicaView> view_replica(const std::string& name, io::Directory& folder,
                                               bool without_own = false);
// Views of the replicas in `cache`, without unreadable ones. A path costs a file that is opened and read. `unreadable`,
// if given, is set if there may be others than those returned.
enum class Paths : std::uint8_t { kRead, kLeftOut };
[[nodiscard]] std::vector<ReplicaView> list_replicas(io::Directory& cache, Paths paths = Paths::kRead,
                                                     bool* unreadable = nullptr);

}   // namespace forebay::cache
