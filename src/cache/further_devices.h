// From option `nls` to the devices of a store: what each may hold, and the part folders of the further ones.
//
// Thread-safety: all calls from any thread. They block on metadata of the devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/options.h"
#include "base/status.h"
#include "cache/store.h"
#include "io/file.h"

namespace forebay::cache {

// Of the folder `cache`, opened at `path`: its limits, and the further devices with theirs. A further device that
// cannot be used is left out. Returns why, of the last one.
Status add_devices(StoreSetup& setup, const Options& options, const std::string& path);

// Removes the part folders in this folder `cache` whose first device has no cache any more. Returns how many files with
// bytes that were.
std::uint64_t remove_orphaned_parts(io::Directory& cache);

// One that a cache has noted. kPermissionDenied: others than the calling user may change what is there.
[[nodiscard]] Result<std::unique_ptr<io::Directory>> open_part_folder(const std::string& path);

}   // namespace forebay::cache
