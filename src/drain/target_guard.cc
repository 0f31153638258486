#include "drain/target_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace forebay::drain {

void TargetGuard::begin(io::TimesKind kind, const std::optional<io::FileState>& rest, std::uint64_t size_min,
                        std::uint64_t size_max) {
    end();
    on_ = true;
    kind_ = kind;
    rest_ = rest;
    size_min_ = rest ? rest->size : size_min;
    size_max_ = rest ? rest->size : size_max;
}

// A write sets the modification time to one not before the last change, and changes the status too. A change of size
// sets 0 on some file systems: ceph-fuse 16 does.
bool TargetGuard::times_set(const io::FileState& now) const noexcept {
    const std::optional<std::uint64_t> after_ns = rest_ ? rest_->changed_ns : after_ns_;
    if (!after_ns || now.modified_ns == now.changed_ns || (rest_ && now.modified_ns == rest_->modified_ns))
        return false;
    if (now.modified_ns == 0 && kind_ != io::TimesKind::kExact) return false;
    return now.modified_ns < *after_ns || now.modified_ns > now.changed_ns;
}

TargetGuard::Found TargetGuard::size_is(std::uint64_t size) {
    if (size >= size_min_ && size <= size_max_) return Found::kSame;
    reject(size_min_ == size_max_
               ? fmt::format("it has {} bytes, and had {}", size, size_min_)
               : fmt::format("it has {} bytes, and had between {} and {}", size, size_min_, size_max_));
    return Found::kChanged;
}

TargetGuard::Found TargetGuard::compare(const io::FileState& now) {
    if (changed_ || size_is(now.size) == Found::kChanged) return Found::kChanged;
    if (has_times() && times_set(now)) return Found::kTimesSet;
    if (!rest_) accept(now);                                                          // the first look
    if (!has_times() || now.modified_ns == rest_->modified_ns) return Found::kSame;   // another name, mode or owner
    reject("it was written to, or touched");
    return Found::kChanged;
}

void TargetGuard::accept(const io::FileState& now) noexcept {
    if (has_times() && times_set(now)) modified_to_keep_ns_ = now.modified_ns;
    rest_ = now;
    size_min_ = size_max_ = now.size;
}

void TargetGuard::reject(std::string why) {
    changed_ = true;
    why_ = std::move(why);
}

// A failed write may have come in part.
void TargetGuard::wrote(std::uint64_t end, bool succeeded) noexcept {
    size_max_ = std::max(size_max_, end);
    if (succeeded) size_min_ = std::max(size_min_, end);
}

void TargetGuard::resized(std::uint64_t size, bool succeeded) noexcept {
    size_min_ = succeeded ? size : std::min(size_min_, size);
    size_max_ = succeeded ? size : std::max(size_max_, size);
}

TargetGuard::Found TargetGuard::left(const io::FileState& now) {
    if (changed_ || size_is(now.size) == Found::kChanged) return Found::kChanged;
    accept(now);   // includes times set since the last write
    return Found::kSame;
}

}   // namespace forebay::drain
