// The registry of the staging areas that a user has on this node. Commands find logs through it.
//
//     <place>/forebay-areas-<uid>/<hash of the path>-<device>     one small file per staging area
//
// `place` is the directory of option registry, else the first of /var/tmp and /tmp that is on a local device. The
// folder has mode 0700. An entry names the directory of option nls, its device and inode, and the boot in which it was
// made. A process notes its area after it has made its process directory there. A command removes the entry of an empty
// area first, and then looks at the area again; if it finds a process directory now, it notes the area anew. So an area
// with logs always gets its entry, without locks. A mount namespace may have a /var/tmp of its own, with a registry of
// its own. Thread-safety: all functions. Blocks on file metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace forebay::area {

struct RegisteredArea {
    std::string nls;                       // the directory of option nls, without symbolic links
    std::uint64_t device = 0, inode = 0;   // of that directory
    std::string boot_id;                   // the boot in which it was noted
    bool in_memory = false;                // its contents end with that boot
    std::string entry;                     // path of the registry's own file
};

// Returns the possible places of a registry, in the order of preference.
[[nodiscard]] std::vector<std::string> registry_places(const Options& options);

// Returns the folder of the effective user, "forebay-areas-1000".
[[nodiscard]] std::string registry_folder();

// Notes the area at `nls`, unless it is already known. A program continues after a failure.
[[nodiscard]] Status note_area(const Options& options, const std::string& nls);

// The registry of the effective user. `unreadable` names its unreadable parts.
struct Registry {
    std::vector<RegisteredArea> areas;
    std::vector<std::string> unreadable;
};
[[nodiscard]] Registry read_registry(const Options& options);

// Removes the entry, and the folder after its last entry. Best effort.
void forget_area(const RegisteredArea& area);

// Returns the other users who have a registry on this node.
[[nodiscard]] std::vector<std::uint64_t> other_registered_users(const Options& options);

}   // namespace forebay::area
