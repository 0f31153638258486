// Who a process is, as logs and ledgers name it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "log/format.h"

namespace forebay::log {

// The calling process. Reads /proc; kUnavailable without it.
[[nodiscard]] Result<ProcessIdentity> identify_this_process();

// True if that very process (not a later one with the same number) runs on this machine now.
[[nodiscard]] bool is_alive(const ProcessIdentity& process);

// A process says so in its directory as long as it lives, with a claim (io/claim.h) of this name: whoever is in another PID namespace, as
// outside its container, does not find its number, or finds somebody else's.
inline constexpr std::string_view kAliveClaim = "alive";
// Not to be asked of a directory of this process.
[[nodiscard]] bool says_it_is_alive(const std::string& directory);
// Either of the two. Of a process that is seen to be alive it asks no more.
[[nodiscard]] bool owner_is_alive(const ProcessIdentity& process, const std::string& directory);

// True if a process with that number runs now: this one, or a later one. Much cheaper than is_alive.
[[nodiscard]] bool number_is_taken(const ProcessIdentity& process) noexcept;

// Whose directory in the staging area has this name, "<pid>-<start>-<n>"; nothing: nobody's. The boot is not in the
// name: that of this machine is assumed, so a directory of another boot may seem alive, and a living one never dead.
[[nodiscard]] std::optional<ProcessIdentity> owner_of_directory(std::string_view name);

// "1f0c…-…": the text form of /proc/sys/kernel/random/boot_id.
[[nodiscard]] std::string to_text(const BootId& boot_id);

}   // namespace forebay::log
