#include "hdf5/driver/deferred_descriptor.h"

#include <sys/file.h>

#include <mutex>
#include <utility>
#include <vector>

#include "base/immortal.h"
#include "io/record_locks.h"

namespace forebay::hdf5 {

namespace {

struct Kept {
    std::mutex mutex;
    std::vector<std::pair<io::Identity, std::shared_ptr<io::Descriptor>>> descriptors;
};

Kept& kept() {
    static Immortal<Kept> all;
    return *all;
}

}   // namespace

Status end_deferred_descriptor(const std::shared_ptr<io::Descriptor>& descriptor, const io::Identity& identity,
                               bool locked, stage::Ended ended) {
    // A file that could not be written keeps its lock: other processes must not write it before its recovery.
    if (ended.left) return Status::ok();
    if (locked) (void)descriptor->lock(LOCK_UN);
    if (io::has_record_locks(identity)) {
        const std::lock_guard lock(kept().mutex);
        kept().descriptors.emplace_back(identity, descriptor);
        return Status::ok();
    }
    // Without a free descriptor this flushes nothing: the last holder's close does.
    const int error = ended.gone ? descriptor->close() : descriptor->flush_as_close().value_or(0);
    return error == 0 ? Status::ok() : Status::from_errno(error, "close the file");
}

// In a forked child, a thread that does not exist there may hold the mutex.
void close_kept_descriptors(const io::Identity& identity) noexcept {
    Kept& all = kept();
    const std::unique_lock lock(all.mutex, std::try_to_lock);
    if (!lock) return;
    std::erase_if(all.descriptors, [&](const auto& one) {
        if (one.first != identity) return false;
        (void)one.second->close();
        return true;
    });
}

}   // namespace forebay::hdf5
