#include "cli/cache_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/options.h"
#include "cache/further_devices.h"
#include "cli/read_caches.h"
#include "cli/shown.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;
using State = cache::ReplicaView::State;

// Counts the last block as a full one.
std::uint64_t stored_of(const cache::ReplicaView& replica) {
    return std::min(replica.stored_bytes, replica.source.size);
}

const char* state_name(State state) {
    switch (state) {
        case State::kNone: return "empty";
        case State::kUnknown: return "unknown";
        case State::kVoid: return "void";
        case State::kValid: break;
    }
    return "valid";
}

std::string traits_of(const cache::ReplicaView& replica) {
    std::string text = replica.permanent ? "permanent" : "temporal";
    if (replica.pinned) text += ", pinned";
    text += replica.in_use ? ", in use" : ", not in use";
    if (replica.state == State::kVoid) text += ", VOID: no process reads it any more";
    return text;
}

std::string used_of(const cache::AccountView& account) {
    return format_size(account.stored_bytes) +
           (account.capacity_bytes == 0 ? "" : fmt::format(" of {}", format_size(account.capacity_bytes)));
}

ordered_json devices_of(const CacheView& view, const cache::ReplicaView& replica) {
    ordered_json devices = ordered_json::array();
    devices.push_back({{"path", view.path}, {"stored_bytes", replica.device_bytes[0]}});
    for (std::size_t i = 0; i < view.further.size(); ++i)
        devices.push_back({{"path", view.further[i].path}, {"stored_bytes", replica.device_bytes[i + 1]}});
    return devices;
}

}   // namespace

CacheView view_of(io::Directory& cache) {
    CacheView view;
    view.path = cache.name();
    if (const auto account = cache::read_account(cache)) view.account = account.value();
    for (const std::string& path : cache::read_devices(cache)) {
        DeviceView device{path, {}, {}};
        const auto folder = cache::open_part_folder(path);
        const auto account = folder ? cache::read_account(*folder.value()) : folder.status();
        if (account) device.account = account.value();
        else device.message = account.status().message();
        view.further.push_back(std::move(device));
    }
    view.replicas = cache::list_replicas(cache);
    return view;
}

double share_of(const cache::ReplicaView& replica) {
    if (replica.source.size == 0) return 0;
    return static_cast<double>(stored_of(replica)) / static_cast<double>(replica.source.size);
}

std::string cache_summary(const CacheView& view) {
    cache::AccountView all = view.account;
    for (const DeviceView& device : view.further) {
        all.stored_bytes += device.account.stored_bytes;
        all.capacity_bytes += device.account.capacity_bytes;
    }
    return fmt::format("{}, {} {}", used_of(all), view.replicas.size(), view.replicas.size() == 1 ? "file" : "files");
}

std::string devices_as_text(const CacheView& view) {
    if (view.further.empty()) return {};
    std::string text = fmt::format("  device {}: {}\n", printable(view.path), used_of(view.account));
    for (const DeviceView& device : view.further)
        fmt::format_to(std::back_inserter(text), "  device {}: {}\n", printable(device.path),
                       device.message.empty() ? used_of(device.account)
                                              : fmt::format("CANNOT BE USED: {}", printable(device.message)));
    return text;
}

std::string cache_as_text(const CacheView& view) {
    std::string text = fmt::format("{}: {}\n{}", printable(view.path), cache_summary(view), devices_as_text(view));
    const auto out = std::back_inserter(text);
    for (const cache::ReplicaView& replica : view.replicas) {
        fmt::format_to(out, "  {}\n", source_name(replica));
        if (replica.state == State::kNone || replica.state == State::kUnknown) {
            fmt::format_to(out, "    {}{}\n",
                           replica.state == State::kNone ? "nothing is stored" : "its map cannot be read",
                           replica.in_use ? ", in use" : "");
            continue;
        }
        fmt::format_to(out, "    {} of {} stored ({:.0f} %), opened {} {}, last {}, made {}\n",
                       format_size(stored_of(replica)), format_size(replica.source.size),
                       std::floor(share_of(replica) * 100), replica.opens, replica.opens == 1 ? "time" : "times",
                       local_time(replica.used_ns), local_time(replica.made_ns));
        fmt::format_to(out, "    {}\n", traits_of(replica));
    }
    return text;
}

ordered_json further_as_json(const CacheView& view) {
    ordered_json result = ordered_json::array();
    for (const DeviceView& device : view.further)
        result.push_back({{"path", device.path},
                          {"stored_bytes", device.account.stored_bytes},
                          {"capacity_bytes", device.account.capacity_bytes},
                          {"message", device.message}});
    return result;
}

ordered_json cache_as_json(const CacheView& view) {
    ordered_json result{{"path", view.path},
                        {"stored_bytes", view.account.stored_bytes},
                        {"capacity_bytes", view.account.capacity_bytes},
                        {"further_devices", further_as_json(view)},
                        {"files", ordered_json::array()}};
    for (const cache::ReplicaView& replica : view.replicas)
        result["files"].push_back({{"path", replica.path},
                                   {"name", replica.name},
                                   {"device", replica.source.identity.device},
                                   {"inode", replica.source.identity.inode},
                                   {"size", replica.source.size},
                                   {"stored_bytes", stored_of(replica)},
                                   {"share", share_of(replica)},
                                   {"devices", devices_of(view, replica)},
                                   {"map_bytes", replica.map_bytes},
                                   {"opens", replica.opens},
                                   {"used_ns", replica.used_ns},
                                   {"made_ns", replica.made_ns},
                                   {"pinned", replica.pinned},
                                   {"permanent", replica.permanent},
                                   {"in_use", replica.in_use},
                                   {"state", state_name(replica.state)}});
    return result;
}

}   // namespace forebay::cli
