// Makes a store's devices from option `nls`: their limits, and the part folders of the further ones. Thread-safe.
// Blocks on metadata of the devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/options.h"
#include "base/status.h"
#include "cache/store.h"
#include "io/file.h"

namespace forebay::cache {

// Adds the folder `cache` at `path`, and the usable further devices. Returns the error of the last unusable one.
Status add_devices(StoreSetup& setup, const Options& options, const std::string& path);

// Removes part folders in `cache` whose first device has no cache. Returns the number of files with bytes.
std::uint64_t remove_orphaned_parts(io::Directory& cache);

// Opens a part folder that a cache has noted. kPermissionDenied: other users may change it.
[[nodiscard]] Result<std::unique_ptr<io::Directory>> open_part_folder(const std::string& path);

}   // namespace forebay::cache
