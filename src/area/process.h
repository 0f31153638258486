// Who a process is, as logs and ledgers name it.
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

// The process that owns a log, distinguishable from every other one on this machine, ever.
struct ProcessIdentity {
    std::uint64_t pid = 0;
    std::uint64_t start_ticks = 0;
    BootId boot_id{};
    friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// The calling process, or rather this image of it: exec makes another one. Its start is unlike that of a process with
// the same number and start time in another PID namespace. Reads /proc; kUnavailable without it.
[[nodiscard]] Result<ProcessIdentity> identify_this_process();

// How long ago the calling process began; 0: it cannot be known.
[[nodiscard]] std::uint64_t age_of_this_process_ns() noexcept;

// Whether a process lives is told by a lock of this name in its directory, which ends with the process
// (io/process_lock.h), and by nothing else. Number and start time are for messages: they mislead about zombies, after
// exec, and in other PID namespaces.
inline constexpr std::string_view kAliveFile = "alive";
enum class Life : std::uint8_t {
    kLives,
    kEnded,
    kUntold,   // there is no such lock: a directory that is just being made, or of an older forebay; or the file is
               // none that a process of this user locks
    kUnseen,   // it cannot be looked at now, for want of descriptors, for example
};
[[nodiscard]] Life life_in(io::Directory& directory);
// The same by the directory's path, without memory; a directory that is gone is that of a process that has ended.
[[nodiscard]] Life life_at(const std::string& directory) noexcept;

// Whether a process with that number and start time is seen to run. Only for directories that tell nothing.
[[nodiscard]] bool is_seen_running(const ProcessIdentity& process);

// Both: the lock, and what is seen where there is none. A process whose lock cannot be looked at is not known to be
// dead, so it counts as alive.
using IsSeenRunning = std::function<bool(const ProcessIdentity&)>;
[[nodiscard]] bool owner_is_alive(const ProcessIdentity& process, io::Directory& directory,
                                  const IsSeenRunning& is_seen = is_seen_running);
[[nodiscard]] bool owner_is_alive(const ProcessIdentity& process, const std::string& directory);

// How a process is seen whose lock is held still.
enum class Sight : std::uint8_t {
    kNone,      // not in this PID namespace, or its state cannot be read
    kStaying,   // a thread of it runs on
    kEnding,    // all of its threads have ended, or are ending: of SIGKILL, of another signal, or of exit. One of them
                // may be in a call that does not return
};
[[nodiscard]] Sight sight_of(const ProcessIdentity& process);

// Shows children of this process that it cleans up after them (`parent_of_worker`): a mapping with a name, which ends
// with the process's image and is not inherited. Without memory for it, or an old kernel, nothing is shown.
void show_as_parent() noexcept;
// The process that this one works for. A worker was forked and has executed no program since, or Python's
// multiprocessing has spawned it; its parent shows itself and runs the same program. Workers of a fork server work for
// the parent of that. Nothing: it is no worker, or there is no such parent. Reads /proc, once in each process.
[[nodiscard]] std::optional<ProcessIdentity> parent_of_worker();
// By number and start time.
[[nodiscard]] bool is_this_process(const ProcessIdentity& process);
// "<pid>-<start time>" of a process of this machine, and back. The image is left out: exec keeps the name.
[[nodiscard]] std::string process_name(const ProcessIdentity& process);
[[nodiscard]] std::optional<ProcessIdentity> process_of_name(std::string_view name);

// Whose directory in the staging area has this name, "<pid>-<start>-<n>"; nothing: nobody's. The boot is not in the
// name: that of this machine is assumed.
[[nodiscard]] std::optional<ProcessIdentity> owner_of_directory(std::string_view name);

// "1f0c…-…": the text form of /proc/sys/kernel/random/boot_id.
[[nodiscard]] std::string to_text(const BootId& boot_id);

}   // namespace forebay::area
