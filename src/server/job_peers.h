// The peers of a job that torchrun has started (docs/read-cache.md, "In a job"): those of other nodes, for this
// process's read cache. A node's first process also becomes the node's own peer: a server (server.h) in threads of this
// process, which only serves reads through the cache. It starts at the first open of a file by a job. It ends with the
// last copy of the result: its threads are joined, and the node's file says that the peer has ended. If a file system
// does not answer one of them for kLastMoment (job_peers.cc), the peer is left as it is: nothing that a running thread
// uses is destroyed. A forked child has none of this, and ends none of it. Thread-safety: all calls from any thread.
// The first call waits for the peers of the other nodes, at most kMeeting, unless this is a forked process on a node
// without a peer. Later calls block only on metadata of the staging area. The end waits for reads in flight, a few
// seconds at most.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/options.h"
#include "cache/peers.h"

namespace forebay::server {

inline constexpr std::chrono::seconds kMeeting{5};

// Null: this process belongs to no job on several nodes, or has no read cache. `warn` gets the reason, once, if peers
// cannot be used.
[[nodiscard]] cache::FindPeers find_job_peers(const LoadedOptions& loaded, const Getenv& getenv,
                                              std::function<void(const std::string& message)> warn);

}   // namespace forebay::server
