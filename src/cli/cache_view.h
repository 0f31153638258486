// The data of a read cache that commands show. Only `view_of` does I/O.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cache/store.h"

namespace forebay::cli {

struct DeviceView {
    std::string path;   // of its part folder
    cache::AccountView account;
    std::string message;   // why the device is unreadable; empty if it is readable
};

struct CacheView {
    std::string path;
    cache::AccountView account;        // of the first device
    std::vector<DeviceView> further;   // by device number, from 1 on
    std::vector<cache::ReplicaView> replicas;
};
[[nodiscard]] CacheView view_of(io::Directory& cache);

// Returns "1 GiB of 8 GiB, 3 files", summed over all devices.
[[nodiscard]] std::string cache_summary(const CacheView& view);
// Returns one line for each device if there are several.
[[nodiscard]] std::string devices_as_text(const CacheView& view);
[[nodiscard]] std::string cache_as_text(const CacheView& view);
[[nodiscard]] nlohmann::ordered_json further_as_json(const CacheView& view);
[[nodiscard]] nlohmann::ordered_json cache_as_json(const CacheView& view);
// The stored part of the source's bytes, from 0 to 1.
[[nodiscard]] double share_of(const cache::ReplicaView& replica);

}   // namespace forebay::cli
