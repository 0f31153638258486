#include "cache/kept_replicas.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"

namespace forebay::cache {

namespace {

constexpr std::size_t kKeptMax = 64;

}   // namespace

void KeptReplicas::keep(std::shared_ptr<Replica> replica) noexcept {
    if (replica == nullptr || replica->unusable()) return;
    std::shared_ptr<Replica> gone;   // destroyed without the lock, since that may remove it
    (void)attempt([&] {
        const std::lock_guard lock(mutex_);
        const auto same = std::ranges::find_if(replicas_, [&](const std::shared_ptr<Replica>& one) {
            return one->source().identity == replica->source().identity;
        });
        if (same != replicas_.end()) {
            gone = std::exchange(*same, std::move(replica));
            return;
        }
        if (replicas_.size() == kKeptMax) {
            gone = std::move(replicas_.front());
            replicas_.erase(replicas_.begin());
        }
        replicas_.push_back(std::move(replica));
    });
}

std::shared_ptr<Replica> KeptReplicas::take(const Version& version) {
    std::shared_ptr<Replica> found;
    {
        const std::lock_guard lock(mutex_);
        const auto same = std::ranges::find_if(replicas_, [&](const std::shared_ptr<Replica>& one) {
            return one->source().identity == version.identity;
        });
        if (same == replicas_.end()) return nullptr;
        found = std::move(*same);
        replicas_.erase(same);
    }
    if (found->source() != version || !found->may_be_shared()) found.reset();
    return found;
}

bool KeptReplicas::has(const io::Identity& identity) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(replicas_, [&](const auto& one) { return one->source().identity == identity; });
}

bool KeptReplicas::has_version(const Version& version) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(replicas_, [&](const auto& one) { return one->source() == version; });
}

void KeptReplicas::drop_all() noexcept {
    std::vector<std::shared_ptr<Replica>> gone;   // allocates nothing, unlike a deque
    const std::lock_guard lock(mutex_);
    gone.swap(replicas_);
}

}   // namespace forebay::cache
