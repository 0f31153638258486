// What can be seen of file systems from here: whether one is mounted where the registry of staging areas says, or
// anywhere.
#pragma once

#include <cstdint>
#include <string>

#include "area/registry.h"

namespace forebay::cli {

enum class AreaState {
    kInUse,       // process directories are in it, or cached files
    kGone,        // nothing is in it, and nothing can be
    kElsewhere,   // another file system, or none, is where it was: what it holds cannot be seen
};
// Of an area of the effective user.
[[nodiscard]] AreaState state_of(const area::RegisteredArea& area);

// Whether more than its mode says who may write to a file.
[[nodiscard]] bool has_access_list(const std::string& path);

}   // namespace forebay::cli
