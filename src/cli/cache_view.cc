#include "cli/cache_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/options.h"
#include "cli/read_caches.h"
#include "cli/shown.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;
using State = cache::ReplicaView::State;

// The last block counts as a whole one.
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
    if (replica.state == State::kVoid) text += ", VOID: nothing is read from it any more";
    return text;
}

}   // namespace

CacheView view_of(io::Directory& cache) {
    CacheView view;
    view.path = cache.name();
    if (const auto account = cache::read_account(cache)) view.account = account.value();
    view.replicas = cache::list_replicas(cache);
    return view;
}

double share_of(const cache::ReplicaView& replica) {
    if (replica.source.size == 0) return 0;
    return static_cast<double>(stored_of(replica)) / static_cast<double>(replica.source.size);
}

std::string cache_summary(const CacheView& view) {
    return fmt::format("{}{}, {} {}", format_size(view.account.stored_bytes),
                       view.account.capacity_bytes == 0
                           ? ""
                           : fmt::format(" of {}", format_size(view.account.capacity_bytes)),
                       view.replicas.size(), view.replicas.size() == 1 ? "file" : "files");
}

std::string cache_as_text(const CacheView& view) {
    std::string text = fmt::format("{}: {}\n", printable(view.path), cache_summary(view));
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

ordered_json cache_as_json(const CacheView& view) {
    ordered_json result{{"path", view.path},
                        {"stored_bytes", view.account.stored_bytes},
                        {"capacity_bytes", view.account.capacity_bytes},
                        {"files", ordered_json::array()}};
    for (const cache::ReplicaView& replica : view.replicas)
        result["files"].push_back({{"path", replica.path},
                                   {"name", replica.name},
                                   {"device", replica.source.identity.device},
                                   {"inode", replica.source.identity.inode},
                                   {"size", replica.source.size},
                                   {"stored_bytes", stored_of(replica)},
                                   {"share", share_of(replica)},
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
