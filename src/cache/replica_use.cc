#include "cache/replica_use.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/attempt.h"
#include "cache/replica_files.h"

namespace forebay::cache {

namespace {

bool has_owner(io::Directory& folder, std::string_view except) {
    const auto names = folder.list();
    return !names || std::ranges::any_of(names.value(), [&](const std::string& name) {
        if (!name.starts_with(kOwnerPrefix) || name == except) return false;
        const auto holder = folder.holder_of(name);
        return !holder || holder.value() != io::Holder::kNobody;
    });
}

}   // namespace

bool ReplicaUse::is_used(io::Directory& folder) { return has_owner(folder, {}); }

bool ReplicaUse::has_others() const noexcept {
    bool others = true;
    (void)attempt([&] { others = has_owner(folder_, owner_file(number_)); });
    return others;
}

// Each process begins at another number, so that many do not try the same ones in turn.
Status ReplicaUse::begin() {
    const auto names = folder_.list();
    FOREBAY_TRY(names.status());
    const auto first = static_cast<std::uint32_t>(::getpid());
    for (std::uint32_t i = 0; i < kOwnersMax; ++i) {
        const std::uint32_t number = 1 + (first + i) % kOwnersMax;
        const std::string name = owner_file(number);
        auto lock = folder_.hold(name);
        if (lock) {
            lock_ = std::move(lock).value();
            number_ = number;
            // A dead owner may have left units claimed by this number.
            if (std::ranges::find(names.value(), name) != names.value().end()) map_.owners().forget(number);
            return Status::ok();
        }
        if (!io::has_holder(lock.status())) return lock.status();
    }
    return {Code::kUnavailable, "too many processes use the file's replica"};
}

// Without the folder's lock the number's file stays, without meaning.
bool ReplicaUse::end() noexcept {
    if (number_ == 0 || inherited()) return false;
    (void)attempt([&] {
        const auto locked = folder_.lock(io::Directory::Patience::kTry);
        if (locked) (void)folder_.remove_file(owner_file(number_));
        lock_.reset();
    });
    lock_.reset();
    number_ = 0;
    return true;
}

// Under the folder's lock no process can take the dead one's number. Does not wait: the unit is requested again.
bool ReplicaUse::claim(std::uint64_t unit) {
    if (number_ == 0 || inherited()) return false;
    std::uint32_t owner = 0;
    if (map_.owners().claim(unit, number_, owner)) return true;
    if (owner == number_) return false;   // another thread
    const std::string name = owner_file(owner);
    const auto is_dead = [&] {
        const auto holder = folder_.holder_of(name);
        return holder && holder.value() == io::Holder::kNobody;
    };
    if (!is_dead()) return false;
    const auto locked = folder_.lock(io::Directory::Patience::kTry);
    return locked && is_dead() && map_.owners().take_over(unit, owner, number_);
}

}   // namespace forebay::cache
