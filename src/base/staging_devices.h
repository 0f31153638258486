// The value of option `nls`: the directories on node-local storage that forebay uses, each with an optional size.
//   devices = device { ":" device }      device = path [ "=" size ]
// A colon separates two devices only before a slash, because each path is absolute. The text after the last "=" of a
// device is its size, unless it contains a slash. A backslash before ":", "=" or "\" makes that character a part of the
// path. Pure. Thread-safety: all calls from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forebay {

struct StagingDevice {
    std::string path;
    std::uint64_t bytes = 0;   // limit of the read cache in it; 0: option read_cache_size
    friend bool operator==(const StagingDevice&, const StagingDevice&) = default;
};

inline constexpr std::size_t kStagingDevicesMax = 8;

// Returns kInvalidArgument for a path that is not absolute, a malformed size, a repeated directory, or more than
// kStagingDevicesMax devices. Empty text means no devices.
[[nodiscard]] Result<std::vector<StagingDevice>> parse_staging_devices(std::string_view text);
[[nodiscard]] std::string staging_devices_text(const std::vector<StagingDevice>& devices);
// Returns the path of a directory as a value of option `nls`.
[[nodiscard]] std::string as_staging_device(std::string_view path);

}   // namespace forebay
