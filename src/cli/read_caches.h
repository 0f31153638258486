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
// With the rights of each area's user. Adds unreadable caches to `unseen`. Errors: those of `act`.
[[nodiscard]] Status for_each_cache(const Survey& where, std::vector<std::string>& unseen,
                                    const std::function<Status(FoundCache)>& act);
// Opens the store to inspect and remove replicas. Removes leftovers of dead processes. Such a store stores no bytes.
[[nodiscard]] Result<std::shared_ptr<cache::Store>> open_store(FoundCache cache);

// Returns true if `asked` (the command line) names the replica's file, by inode or former path, or names no file.
[[nodiscard]] bool is_asked(const Survey& asked, const cache::ReplicaView& replica);
struct Uncached {                              // named files without a replica
    std::vector<std::string> there, missing;   // existing files, and paths that do not exist
};
[[nodiscard]] Uncached uncached(const Survey& asked, const std::vector<cache::ReplicaView>& found);
// A name for people: the source's path, or the name of the replica's folder.
[[nodiscard]] std::string source_name(const cache::ReplicaView& replica);

}   // namespace forebay::cli
