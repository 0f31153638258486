// What commands show of a read cache. Pure, but for `view_of`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cache/store.h"

namespace forebay::cli {

// A further device of a read cache.
struct DeviceView {
    std::string path;   // of its part folder
    cache::AccountView account;
    std::string message;   // why it cannot be looked at; empty: it can
};

struct CacheView {
    std::string path;
    cache::AccountView account;        // of the first device
    std::vector<DeviceView> further;   // by their numbers, from 1 on
    std::vector<cache::ReplicaView> replicas;
};
// Changes nothing.
[[nodiscard]] CacheView view_of(io::Directory& cache);

// "1 GiB of 8 GiB, 3 files", of all devices.
[[nodiscard]] std::string cache_summary(const CacheView& view);
// A line for each device, if there are several.
[[nodiscard]] std::string devices_as_text(const CacheView& view);
[[nodiscard]] std::string cache_as_text(const CacheView& view);
[[nodiscard]] nlohmann::ordered_json further_as_json(const CacheView& view);
[[nodiscard]] nlohmann::ordered_json cache_as_json(const CacheView& view);
// Part of the source's bytes that is stored, from 0 to 1.
[[nodiscard]] double share_of(const cache::ReplicaView& replica);

}   // namespace forebay::cli
