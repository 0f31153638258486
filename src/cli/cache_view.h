// What commands show of a read cache. Pure, but for `view_of`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cache/store.h"

namespace forebay::cli {

struct CacheView {
    std::string path;
    cache::AccountView account;
    std::vector<cache::ReplicaView> replicas;
};
// Changes nothing.
[[nodiscard]] CacheView view_of(io::Directory& cache);

// "1 GiB of 8 GiB, 3 files"
[[nodiscard]] std::string cache_summary(const CacheView& view);
[[nodiscard]] std::string cache_as_text(const CacheView& view);
[[nodiscard]] nlohmann::ordered_json cache_as_json(const CacheView& view);
// Part of the source's bytes that is stored, from 0 to 1.
[[nodiscard]] double share_of(const cache::ReplicaView& replica);

}   // namespace forebay::cli
