// The names in the folder of a replica (docs/cache-format.md), and common constants and errors.
#pragma once

#include <cerrno>
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
// True if an error tells nothing about the files: a lack of resources, or a passing failure of a device.
[[nodiscard]] inline bool says_nothing(const Status& status) noexcept {
    return status.code() != Code::kNotFound && status.code() != Code::kCorrupt &&
           status.code() != Code::kInvalidArgument;   // such as a symbolic link
}
[[nodiscard]] inline Status too_many_maps() {
    return {Code::kUnavailable, "forebay has too many files mapped for the read cache: keep fewer files open", EMFILE};
}
[[nodiscard]] inline Status cache_is_full() { return {Code::kNoSpace, "the cache is full"}; }

}   // namespace forebay::cache
