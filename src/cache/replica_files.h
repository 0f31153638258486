// The names in the folder of a replica (docs/cache-format.md), and common constants and errors.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::cache {

inline constexpr const char* kReplicaFile = "replica";
inline constexpr const char* kPresenceFile = "presence";
inline constexpr std::string_view kOwnerPrefix = "owner-";
inline constexpr std::string_view kParentPrefix = "parent-";
inline constexpr std::chrono::milliseconds kFolderPatience{500};   // longest wait for the lock of a folder

[[nodiscard]] inline std::string owner_file(std::uint32_t number) {
    return std::string(kOwnerPrefix) + std::to_string(number);
}
[[nodiscard]] inline Status cache_is_full() { return {Code::kNoSpace, "the cache is full"}; }

}   // namespace forebay::cache
