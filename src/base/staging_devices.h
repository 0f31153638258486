// The value of option `nls`: the directories on node-local storage that forebay uses, each with a size if one is given.
//
//   devices = device { ":" device }      device = path [ "=" size ]
//
// A colon separates two devices only where a slash follows it, as each path is absolute. What follows the last "=" of
// a device is its size, unless a slash is in it. A backslash before ":", "=" or "\" makes that a part of the path.
// Pure. Thread-safety: all calls from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forebay {

struct StagingDevice {
    std::string path;          // of the directory, absolute
    std::uint64_t bytes = 0;   // most that the read cache takes of it; 0: option read_cache_size says so
    friend bool operator==(const StagingDevice&, const StagingDevice&) = default;
};

inline constexpr std::size_t kStagingDevicesMax = 8;

// kInvalidArgument: a path that is not absolute, a size that is none, a directory that is named twice, more than
// kStagingDevicesMax. Empty text: no devices.
[[nodiscard]] Result<std::vector<StagingDevice>> parse_staging_devices(std::string_view text);
// The text that `parse_staging_devices` reads as these devices.
[[nodiscard]] std::string staging_devices_text(const std::vector<StagingDevice>& devices);
// One directory, of any path, as a value of option `nls`.
[[nodiscard]] std::string as_staging_device(std::string_view path);

}   // namespace forebay
