// The other nodes that one file is read from: servers that it was opened with, or peers that joined it.
// A file has servers, or peers, or neither; never both. Any thread and forked children may ask servers. Only the
// program's thread may ask peers that joined, and none in a forked child (cache/peers.h). A lock guards the pointer to
// the joined peers; without them no call takes it. No call but those of `Peers` blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "cache/peer_patience.h"
#include "cache/peers.h"
#include "extent/range.h"
#include "io/process_lock.h"

namespace forebay::cache {

class PeerAccess {
  public:
    // `servers` may be null: there are none.
    explicit PeerAccess(std::shared_ptr<Peers> servers) noexcept
        : servers_(std::move(servers)), forks_(io::forks_so_far()) {}

    [[nodiscard]] bool has_servers() const noexcept { return servers_ != nullptr; }
    [[nodiscard]] bool has_joined() const noexcept { return has_joined_.load(std::memory_order_relaxed); }
    [[nodiscard]] Peers* servers() const noexcept { return servers_.get(); }
    // The peers that joined, if this thread may ask them. Otherwise null.
    [[nodiscard]] std::shared_ptr<Peers> joined() const noexcept;
    // Returns false if the file has servers or peers already.
    [[nodiscard]] bool join(std::shared_ptr<Peers> peers) noexcept;
    void part() noexcept;
    // Serves questions of the peers that joined.
    void help() const noexcept;

    // The place where servers want this node to begin to read ahead.
    [[nodiscard]] std::uint64_t first_byte() const noexcept { return servers_ != nullptr ? servers_->first_byte() : 0; }
    // The latest end of a claim that begins at `offset`.
    [[nodiscard]] std::uint64_t end_of_claim(std::uint64_t offset) const noexcept {
        const std::uint64_t within = servers_ != nullptr ? servers_->claim_within() : 0;
        return within == 0 ? kOffsetMax : (offset / within + 1) * within;
    }
    // The cost of the program's requests to the file while peers have joined. For the program's thread only.
    [[nodiscard]] SourcePace& pace() noexcept { return pace_; }

  private:
    const std::shared_ptr<Peers> servers_;
    const std::uint64_t forks_;
    mutable std::mutex mutex_;   // guards `joined_`
    std::shared_ptr<Peers> joined_;
    std::atomic<bool> has_joined_{false};
    SourcePace pace_;
};

}   // namespace forebay::cache
