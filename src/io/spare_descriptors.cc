#include "io/spare_descriptors.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>

namespace forebay::io {

namespace {

constexpr std::size_t kShare = 128;

std::size_t limit_of_process() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    return limit.rlim_cur > std::numeric_limits<int>::max() ? std::numeric_limits<int>::max()
                                                            : static_cast<std::size_t>(limit.rlim_cur);
}

// The system gives the lowest free number, so a process with many descriptors has high ones.
bool are_scarce(std::size_t limit) noexcept {
    constexpr std::size_t kParts = 16;
    for (std::size_t part = kParts / 2; part < kParts; ++part)
        if (::fcntl(static_cast<int>(limit / kParts * part), F_GETFD) >= 0) return true;
    return false;
}

}   // namespace

SpareDescriptors::SpareDescriptors() {
    // Without this handler, a child that is forked at a bad moment finds the list locked, and keeps none.
    (void)::pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                           [] {
                               // The parent's descriptors are not the child's.
                               (void)of_process().give_all_back_locked();
                               of_process().mutex_.unlock();
                           });
}

SpareDescriptors& SpareDescriptors::of_process() noexcept {
    alignas(SpareDescriptors) static std::byte place[sizeof(SpareDescriptors)];
    static SpareDescriptors* const only = ::new (place) SpareDescriptors;   // never destroyed: a fork may come late
    return *only;
}

bool SpareDescriptors::has_room() noexcept {
    const std::size_t limit = limit_of_process();
    return count_.load(std::memory_order_relaxed) < std::min(kMax, limit / kShare) && !are_scarce(limit);
}

bool SpareDescriptors::keep(SpareDescriptor& holder) noexcept {
    const std::lock_guard lock(mutex_);
    if (!has_room()) return false;
    holders_[count_.fetch_add(1, std::memory_order_relaxed)] = &holder;
    return true;
}

void SpareDescriptors::forget(SpareDescriptor& holder) noexcept {
    const std::lock_guard lock(mutex_);
    const auto end = holders_.begin() + static_cast<std::ptrdiff_t>(count_.load(std::memory_order_relaxed));
    const auto found = std::find(holders_.begin(), end, &holder);
    if (found == end) return;
    *found = *(end - 1);
    count_.fetch_sub(1, std::memory_order_relaxed);
}

bool SpareDescriptors::give_all_back_locked() noexcept {
    const std::size_t count = count_.exchange(0, std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) holders_[i]->give_back();
    return count > 0;
}

bool SpareDescriptors::give_all_back() noexcept {
    const std::lock_guard lock(mutex_);
    return give_all_back_locked();
}

void SpareDescriptors::give_back_if_scarce() noexcept {
    if (count_.load(std::memory_order_relaxed) == 0) return;
    const std::lock_guard lock(mutex_);
    const std::size_t limit = limit_of_process();
    if (count_.load(std::memory_order_relaxed) > limit / kShare || are_scarce(limit)) (void)give_all_back_locked();
}

void SpareDescriptors::note_open() noexcept {
    if (opens_.fetch_add(1, std::memory_order_relaxed) % kOpensBetweenLooks == 0) give_back_if_scarce();
}

bool lacks_descriptors(const Status& status) noexcept {
    return status.sys_errno() == EMFILE || status.sys_errno() == ENFILE;
}

}   // namespace forebay::io
