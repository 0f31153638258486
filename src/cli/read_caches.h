// The read caches that a command line means, and what of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/store.h"
#include "cli/staging_areas.h"

namespace forebay::cli {

struct FoundCache {
    std::unique_ptr<io::Directory> folder;   // `cache` in a staging area
    area::BootId boot_id{};
};
// Calls `act` for each read cache of these staging areas, with the rights of its user. What could not be looked into is
// added to `unseen`. Errors: those of `act`.
[[nodiscard]] Status for_each_cache(const Survey& where, std::vector<std::string>& unseen,
                                    const std::function<Status(FoundCache)>& act);
// To look at its replicas and to remove some. Removes what is left over of processes that died. Nothing can be stored.
[[nodiscard]] Result<std::shared_ptr<cache::Store>> open_store(FoundCache cache);

// Whether the command line names the file, by device and inode; one that is not there any more by its path; or names no
// file.
[[nodiscard]] bool is_asked(const Survey& asked, const cache::ReplicaView& replica);
// The files of the command line of which nothing is cached, in two kinds: those that are there, and those that are not.
struct Uncached {
    std::vector<std::string> there, missing;
};
[[nodiscard]] Uncached uncached(const Survey& asked, const std::vector<cache::ReplicaView>& found);
// Of the source, for people: its path, or the name of the replica's folder.
[[nodiscard]] std::string source_name(const cache::ReplicaView& replica);

}   // namespace forebay::cli
