// The identity of a process, as logs and ledgers name it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "io/file.h"

namespace forebay::area {

using BootId = std::array<std::byte, 16>;

// The owner of a log, distinct from every other process that ever ran on this machine.
struct ProcessIdentity {
    std::uint64_t pid = 0;
    std::uint64_t start_ticks = 0;
    BootId boot_id{};
    friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// Returns the identity of this image of the calling process; exec makes another one. Its start differs from that of a
// process with equal number and start time in another PID namespace. Reads /proc; returns kUnavailable without it.
[[nodiscard]] Result<ProcessIdentity> identify_this_process();

// Returns the age of the calling process, or 0 if it is unknown.
[[nodiscard]] std::uint64_t age_of_this_process_ns() noexcept;

// A lock of this name in a process's directory (io/process_lock.h) shows that the process lives. Number and start time
// decide only without such a lock: they mislead about zombies, after exec, and in other PID namespaces.
inline constexpr std::string_view kAliveFile = "alive";
enum class Life : std::uint8_t {
    kLives,
    kEnded,
    // No such lock: a directory in the making or of an older forebay, or a file that no process of this user locks.
    kUntold,
    kUnseen,   // the lock cannot be checked now, for lack of descriptors, for example
};
[[nodiscard]] Life life_in(io::Directory& directory);
// Like life_in by the directory's path, without memory. A missing directory means that its process has ended.
[[nodiscard]] Life life_at(const std::string& directory) noexcept;

// Returns true if a process with that number and start time is seen to run. Use it only for directories without a lock.
[[nodiscard]] bool is_seen_running(const ProcessIdentity& process);

// Checks the lock, and without one asks `is_seen`. A process whose lock cannot be checked counts as alive.
using IsSeenRunning = std::function<bool(const ProcessIdentity&)>;
[[nodiscard]] bool owner_is_alive(const ProcessIdentity& process, io::Directory& directory,
                                  const IsSeenRunning& is_seen = is_seen_running);
[[nodiscard]] bool owner_is_alive(const ProcessIdentity& process, const std::string& directory);

// The visible state of a process that still holds its lock.
enum class Sight : std::uint8_t {
    kNone,      // not in this PID namespace, or unreadable
    kStaying,   // at least one of its threads runs
    // All of its threads have ended, or are ending: of a signal, or exit. One may be in a call that hangs.
    kEnding,
};
[[nodiscard]] Sight sight_of(const ProcessIdentity& process);

// Shows children that this process cleans up after them (`parent_of_worker`). The sign is a mapping with a name, which
// ends with the process's image, and which children do not inherit. Shows nothing without memory or on an old kernel.
void show_as_parent() noexcept;
// Returns the process that this one works for. A worker was forked and has executed no program since, or Python's
// multiprocessing has spawned it. Its parent shows itself and runs the same program. Workers of a fork server work for
// the server's parent. Returns nothing if this is no worker, or without such a parent. Reads /proc once.
[[nodiscard]] std::optional<ProcessIdentity> parent_of_worker();
// Compares number and start time.
[[nodiscard]] bool is_this_process(const ProcessIdentity& process);
// Convert between a process of this machine and its name "<pid>-<start time>", which exec keeps.
[[nodiscard]] std::string process_name(const ProcessIdentity& process);
[[nodiscard]] std::optional<ProcessIdentity> process_of_name(std::string_view name);

// Returns the owner of the directory of this name, "<pid>-<start>-<n>", in the staging area; nothing for other names.
// The name lacks the boot, so this assumes the current one.
[[nodiscard]] std::optional<ProcessIdentity> owner_of_directory(std::string_view name);

// Returns the text form of /proc/sys/kernel/random/boot_id, "1f0c…-…".
[[nodiscard]] std::string to_text(const BootId& boot_id);

}   // namespace forebay::area
