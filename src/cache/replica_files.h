// Names in the folder of a replica (docs/cache-format.md), and how long its lock is waited for.
#pragma once

#include <chrono>
#include <string_view>

namespace forebay::cache {

inline constexpr const char* kReplicaFile = "replica";
inline constexpr const char* kPresenceFile = "presence";
inline constexpr std::string_view kOwnerPrefix = "owner-";
inline constexpr std::string_view kParentPrefix = "parent-";
inline constexpr std::chrono::milliseconds kFolderPatience{500};

}   // namespace forebay::cache
