#include "cli/read_caches.h"

#include <fmt/format.h>

#include <algorithm>

#include "area/process.h"
#include "base/clock.h"
#include "cache/further_devices.h"
#include "cli/acting_as.h"
#include "cli/shown.h"
#include "recover/trust.h"

namespace forebay::cli {

namespace {

constexpr const char* kCacheFolder = "cache";

}   // namespace

Status for_each_cache(const Survey& where, std::vector<std::string>& unseen,
                      const std::function<Status(FoundCache)>& act) {
    const auto self = area::identify_this_process();
    FOREBAY_TRY(self.status());
    for (const UserAreas& user : where.users) {
        const auto acting = ActingAs::user(user.user);
        FOREBAY_TRY(acting.status());
        for (const auto& area : user.areas) {
            if (const auto facts = area->facts(kCacheFolder); !facts && facts.status().code() == Code::kNotFound)
                continue;
            const Status trusted = recover::check_trusted(*area, kCacheFolder, io::Facts::Kind::kDirectory);
            auto folder = trusted ? area->open_directory(kCacheFolder)
                                  : Result<std::unique_ptr<io::Directory>>(trusted);
            if (folder) FOREBAY_TRY(act({std::move(folder).value(), self.value().boot_id}));
            else unseen.push_back(folder.status().message());
        }
    }
    return Status::ok();
}

Result<std::shared_ptr<cache::Store>> open_store(FoundCache cache) {
    return cache::Store::open({.folder = std::move(cache.folder),
                               .boot_id = cache.boot_id,
                               .now_ns = realtime_ns,
                               .open_part = cache::open_part_folder});
}

bool is_asked(const Survey& asked, const cache::ReplicaView& replica) {
    if (!asked.names_files()) return true;
    return std::ranges::any_of(asked.files,
                               [&](const recover::Wanted& file) {
                                   return cache::replica_name(file.identity) == replica.name;
                               }) ||
           std::ranges::find(asked.missing, replica.path) != asked.missing.end();
}

Uncached uncached(const Survey& asked, const std::vector<cache::ReplicaView>& found) {
    Uncached none;
    for (const recover::Wanted& file : asked.files)
        if (std::ranges::none_of(found, [&](const cache::ReplicaView& replica) {
                return replica.name == cache::replica_name(file.identity);
            }))
            none.there.push_back(file.path);
    for (const std::string& path : asked.missing)
        if (std::ranges::none_of(found, [&](const cache::ReplicaView& replica) { return replica.path == path; }))
            none.missing.push_back(path);
    return none;
}

std::string source_name(const cache::ReplicaView& replica) {
    return replica.path.empty() ? fmt::format("a file of unknown path ({})", replica.name) : printable(replica.path);
}

}   // namespace forebay::cli
