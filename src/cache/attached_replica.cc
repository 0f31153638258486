#include "cache/attached_replica.h"

#include <chrono>
#include <utility>

namespace forebay::cache {

AttachedReplica::AttachedReplica(std::shared_ptr<CachedFileState> file)
    : file_(std::move(file)),
      fetcher_(std::make_shared<SourceFetcher>(file_)),
      replacement_(std::make_shared<UnitReplacement>(file_, fetcher_)),
      prefetcher_(std::make_shared<Prefetcher>(file_, fetcher_, replacement_)),
      reader_(file_, fetcher_, replacement_, prefetcher_) {}

std::shared_ptr<Replica> AttachedReplica::replica_to_keep() const noexcept {
    return file_->policy.outlives_close ? file_->replica : nullptr;
}

Result<AttachedReplica::Exposed> AttachedReplica::expose() const {
    Exposed exposed{replica_to_keep(), nullptr, nullptr};
    if (exposed.replica == nullptr) return Status(Code::kUnsupported, file_->source->name() + " has no sure versions");
    auto bytes = exposed.replica->map_bytes();
    if (!bytes) return bytes.status();
    exposed.bytes = std::move(bytes).value();
    exposed.guard = std::make_unique<io::Replaceable>(exposed.bytes->bytes());
    return exposed;
}

bool AttachedReplica::join(std::shared_ptr<Peers> peers) noexcept {
    const std::uint64_t first_byte = peers->first_byte();
    if (!file_->peers.join(std::move(peers))) return false;
    fetcher_->read_ahead_from(first_byte);
    return true;
}

// A forked child has no tasks, and its copy of a lock may be locked for ever.
// A replica that only an open file may use also waits for its tasks, which share it.
void AttachedReplica::close() {
    if (file_->admission.is_forked()) return;
    const auto until = std::chrono::steady_clock::now() + file_->policy.close_max;
    file_->budget.close(file_->policy.close_max);
    if (!file_->policy.outlives_close) file_->task_count->await_none(until);
}

}   // namespace forebay::cache
