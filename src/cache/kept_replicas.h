// Replicas of closed files that a process keeps: a program may reopen its file for each sample or epoch.
// It keeps the last 64, at most one for a file. Thread-safe: a lock guards the list and is never held over a system
// call. The end of a dropped replica blocks on the staging area.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cache/presence.h"
#include "cache/replica.h"
#include "io/file.h"

namespace forebay::cache {

class KeptReplicas {
  public:
    // In the place of an older one of the file. Does nothing with null or a replica that is unusable.
    void keep(std::shared_ptr<Replica> replica) noexcept;
    // The kept replica of this version, which is no longer kept. Null: none may serve another open. Drops other
    // versions.
    [[nodiscard]] std::shared_ptr<Replica> take(const Version& version);
    [[nodiscard]] bool has(const io::Identity& identity) const;
    [[nodiscard]] bool has_version(const Version& version) const;
    void drop_all() noexcept;

  private:
    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<Replica>> replicas_;   // the oldest first
};

}   // namespace forebay::cache
