// The peers of a job that torchrun has started (docs/read-cache.md, "In a job"): finds those of the other nodes for the
// read cache of this process, and is this node's own in the process that gets there first.
//
// The peer is a server (server.h) that serves reads through the cache, and nothing else, in threads of this process.
// Nothing is made before the first file of a job is opened. It all ends with the last copy of what is returned: the
// threads are joined, and the node's file says that the peer has ended. In a forked child nothing of it is there, and
// nothing ends with it there.
//
// Thread-safety: all calls from any thread. Blocking: the first call waits for the peers of the other nodes, kMeeting
// at most, unless this is a forked process on a node without a peer; later ones block on metadata of the staging area
// only. The end waits for reads that are under way.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/options.h"
#include "cache/peers.h"

namespace forebay::server {

inline constexpr std::chrono::seconds kMeeting{5};

// Null: this process belongs to no job on several nodes, or does not read through the cache (option read_cache).
// `warn`: is told once why peers cannot be used.
[[nodiscard]] cache::FindPeers find_job_peers(const LoadedOptions& loaded, const Getenv& getenv,
                                              std::function<void(const std::string& message)> warn);

}   // namespace forebay::server
