// The registry of the staging areas that a user has on this node: commands find logs there without being told where to
// look.
//
//     <place>/forebay-areas-<uid>/<hash of the path>-<device>     one small file per staging area
//
// `place` is the directory that option registry names, else /var/tmp, else /tmp, whichever comes first on a local
// device. The folder has mode 0700. An entry names the directory that option nls named, its device, and the boot in
// which it was made.
//
// A process notes its area after it has made its process directory there. A command removes the entry of an empty area
// first and looks at the area again then; if there is a process directory now, it notes the area anew. So no area with
// logs is ever without its entry, and nobody locks anything. Mount namespaces have a /var/tmp of their own at times,
// and a registry of their own with it. Thread-safety: all of it. Blocks on file metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace forebay::area {

struct RegisteredArea {
    std::string nls;            // the directory that option nls named, without symbolic links
    std::uint64_t device = 0;   // that it was on
    std::string boot_id;        // when it was noted
    bool in_memory = false;     // what was there is gone with that boot
    std::string entry;          // path of the registry's own file
};

// Where a registry may be, in the order of preference.
[[nodiscard]] std::vector<std::string> registry_places(const Options& options);

// "forebay-areas-1000": the folder of the effective user.
[[nodiscard]] std::string registry_folder();

// Notes the area at `nls`, unless it is known already. A program goes on if that fails.
[[nodiscard]] Status note_area(const Options& options, const std::string& nls);

// That of the effective user. What of it cannot be read is named in `unreadable`.
struct Registry {
    std::vector<RegisteredArea> areas;
    std::vector<std::string> unreadable;
};
[[nodiscard]] Registry read_registry(const Options& options);

// Removes the entry, and the folder if that was the last one. Best effort.
void forget_area(const RegisteredArea& area);

// Other users who have a registry on this node.
[[nodiscard]] std::vector<std::uint64_t> other_registered_users(const Options& options);

}   // namespace forebay::area
