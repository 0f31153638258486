#include "cache/peer_access.h"

namespace forebay::cache {

// A thread of the parent may have held the lock when a child was forked.
std::shared_ptr<Peers> PeerAccess::joined() const noexcept {
    if (!has_joined() || io::forks_so_far() != forks_) return nullptr;
    std::shared_ptr<Peers> peers;
    {
        const std::lock_guard lock(mutex_);
        peers = joined_;
    }
    return peers != nullptr && peers->usable() ? peers : nullptr;
}

bool PeerAccess::join(std::shared_ptr<Peers> peers) noexcept {
    const std::lock_guard lock(mutex_);
    if (joined_ != nullptr || servers_ != nullptr) return false;
    joined_ = std::move(peers);
    has_joined_.store(true);
    return true;
}

void PeerAccess::part() noexcept {
    const std::lock_guard lock(mutex_);
    has_joined_.store(false);
    joined_ = nullptr;
}

void PeerAccess::help() const noexcept {
    if (const auto peers = joined()) peers->help();
}

}   // namespace forebay::cache
