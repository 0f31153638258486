#include "hdf5/other_driver_files.h"

namespace forebay::hdf5 {

OtherDriverFiles& OtherDriverFiles::get() {
    static Immortal<OtherDriverFiles> files;
    return *files;
}

OtherDriverFiles::Use::Use(const io::Identity& identity, bool by_default)
    : identity_(identity), by_default_(by_default) {
    OtherDriverFiles& files = get();
    const std::lock_guard lock(files.mutex_);
    Uses& uses = files.open_[identity_];
    ++uses.all;
    if (!by_default_) return;
    ++uses.by_default;
    ++files.by_default_;
}

OtherDriverFiles::Use::~Use() {
    OtherDriverFiles& files = get();
    const std::lock_guard lock(files.mutex_);
    const auto found = files.open_.find(identity_);
    if (by_default_) {
        --found->second.by_default;
        --files.by_default_;
    }
    if (--found->second.all == 0) files.open_.erase(found);
}

void OtherDriverFiles::note_linked(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    linked_.insert(identity);
}

void OtherDriverFiles::note_created(const io::Identity& identity) noexcept {
    const std::lock_guard lock(mutex_);
    linked_.erase(identity);
}

bool OtherDriverFiles::contains(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    return open_.contains(identity) || linked_.contains(identity);
}

bool OtherDriverFiles::has_by_default(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(identity);
    return found != open_.end() && found->second.by_default > 0;
}

bool OtherDriverFiles::any_by_default() {
    const std::lock_guard lock(mutex_);
    return by_default_ > 0;
}

}   // namespace forebay::hdf5
