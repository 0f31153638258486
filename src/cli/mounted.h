// Tells if the file system of a registered staging area is mounted, at its place or elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "area/registry.h"

namespace forebay::cli {

enum class AreaState {
    kInUse,       // the area has process directories or cached files
    kGone,        // the area is empty, and stays empty
    kElsewhere,   // another file system, or none, is at that place, so its content is unknown
};
[[nodiscard]] AreaState state_of(const area::RegisteredArea& area);

// Returns true if an access list adds to the file's mode.
[[nodiscard]] bool has_access_list(const std::string& path);

}   // namespace forebay::cli
