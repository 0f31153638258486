#include "io/closed_on_fork.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace forebay::io {

struct ClosedOnFork::Named {
    std::atomic<bool> taken{true};
    std::atomic<int> number{-1};   // -1: none; stored last
    std::atomic<std::uint64_t> inode{0};
    Named* next = nullptr;   // constant once it is in the list
};

namespace {

std::atomic<ClosedOnFork::Named*> all{nullptr};

// In a child, another thread's changes may be incomplete. Then the inode does not match.
void close_all() noexcept {
    for (ClosedOnFork::Named* each = all.load(std::memory_order_acquire); each != nullptr; each = each->next) {
        const int number = each->number.exchange(-1, std::memory_order_acquire);
        struct stat facts{};
        if (number >= 0 && ::fstat(number, &facts) == 0 && S_ISSOCK(facts.st_mode) &&
            facts.st_ino == each->inode.load(std::memory_order_relaxed))
            (void)::close(number);
    }
}

// Two threads may both register the handler; a second call does no harm. A lock could stay held in the child.
bool is_told_of_forks() noexcept {
    static std::atomic<bool> told{false};
    if (!told.load(std::memory_order_acquire) && ::pthread_atfork(nullptr, nullptr, close_all) == 0)
        told.store(true, std::memory_order_release);
    return told.load(std::memory_order_relaxed);
}

ClosedOnFork::Named* take() noexcept {
    for (ClosedOnFork::Named* each = all.load(std::memory_order_acquire); each != nullptr; each = each->next)
        if (!each->taken.exchange(true, std::memory_order_acquire)) return each;
    auto* const made = new (std::nothrow) ClosedOnFork::Named;
    if (made == nullptr) return nullptr;
    made->next = all.load(std::memory_order_relaxed);
    while (!all.compare_exchange_weak(made->next, made, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return made;
}

}   // namespace

void ClosedOnFork::name(int number, std::uint64_t inode) noexcept {
    if (!is_told_of_forks()) return;
    named_ = take();
    if (named_ == nullptr) return;
    named_->inode.store(inode, std::memory_order_relaxed);
    named_->number.store(number, std::memory_order_release);
}

ClosedOnFork::~ClosedOnFork() {
    if (named_ == nullptr) return;
    named_->number.store(-1, std::memory_order_relaxed);
    named_->taken.store(false, std::memory_order_release);
}

}   // namespace forebay::io
