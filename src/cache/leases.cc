#include "cache/leases.h"

#include <unistd.h>

#include <utility>

#include "extent/range.h"
#include "io/process_lock.h"

namespace forebay::cache {

Leases::Leases(std::uint64_t lasts_ns, std::uint64_t bytes_max)
    : lasts_ns_(lasts_ns), bytes_max_(bytes_max), forks_(io::forks_so_far()), user_(::geteuid()), group_(::getegid()) {}

// A thread of the parent may have held the lock.
bool Leases::usable() const noexcept { return enabled() && io::forks_so_far() == forks_; }

void Leases::erase(Place place) noexcept {
    if (const auto named = by_path_.find(place->path); named != by_path_.end() && named->second == place)
        by_path_.erase(named);
    const auto [begin, end] = by_inode_.equal_range(place->lease.version.identity.inode);
    for (auto one = begin; one != end; ++one)
        if (one->second == place) {
            by_inode_.erase(one);
            break;
        }
    bytes_ -= bytes_of(*place);
    order_.erase(place);
}

// Drops the leases of the file's other versions: the file has changed, or a new file has its inode number.
void Leases::drop_other_versions(const Version& version) noexcept {
    auto [one, end] = by_inode_.equal_range(version.identity.inode);
    while (one != end) {
        const Place place = (one++)->second;
        if (place->lease.version.identity == version.identity && place->lease.version != version) erase(place);
    }
}

// Another user may lack the permission to open these files.
void Leases::empty_for_another_user() noexcept {
    const uid_t user = ::geteuid();
    const gid_t group = ::getegid();
    if (user == user_ && group == group_) return;
    by_path_.clear();
    by_inode_.clear();
    order_.clear();
    bytes_ = 0;
    user_ = user;
    group_ = group;
}

std::optional<Lease> Leases::find(const std::string& path, std::uint64_t now_ns) {
    if (!usable()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    empty_for_another_user();
    const auto named = by_path_.find(path);
    if (named == by_path_.end()) return std::nullopt;
    const Place place = named->second;
    if (lasts_ns_ != kOffsetMax && now_ns - place->lease.compared_ns >= lasts_ns_) {
        erase(place);
        return std::nullopt;
    }
    order_.splice(order_.begin(), order_, place);
    return place->lease;
}

void Leases::keep(const std::string& path, const Lease& lease) {
    if (!usable()) return;
    const std::lock_guard lock(mutex_);
    empty_for_another_user();
    if (const auto named = by_path_.find(path); named != by_path_.end()) erase(named->second);
    drop_other_versions(lease.version);
    order_.push_front({path, lease});
    const Place place = order_.begin();
    bytes_ += bytes_of(*place);
    // Without memory for these entries no call finds the lease, and it ages out.
    by_inode_.emplace(lease.version.identity.inode, place);
    by_path_.emplace(place->path, place);
    while (bytes_ > bytes_max_) erase(std::prev(order_.end()));
}

void Leases::drop(const std::string& path) noexcept {
    if (!usable()) return;
    const std::lock_guard lock(mutex_);
    if (const auto named = by_path_.find(path); named != by_path_.end()) erase(named->second);
}

void Leases::drop(const io::Identity& identity) noexcept {
    if (!usable()) return;
    const std::lock_guard lock(mutex_);
    for (auto one = by_inode_.find(identity.inode); one != by_inode_.end(); one = by_inode_.find(identity.inode)) {
        // Also drops files of other devices with this number, which only costs a request.
        erase(one->second);
    }
}

}   // namespace forebay::cache
