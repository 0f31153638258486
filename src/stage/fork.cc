#include "stage/fork.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace forebay::stage {

namespace {

// pthread_atfork takes no argument and cannot be undone: this list and its handlers are the process's.
struct Registry {
    std::mutex mutex;
    std::vector<ForkParty*> parties;
    std::atomic<std::uint64_t> generation{0};
    bool told_of_forks = false;

    // Allocates nothing, so that asking for the generation cannot fail.
    static Registry& instance() noexcept {
        alignas(Registry) static std::byte place[sizeof(Registry)];
        static Registry* const registry = ::new (place) Registry;   // never destroyed: fork may come late
        return *registry;
    }
    // Throws std::bad_alloc, the only failure that POSIX knows for pthread_atfork.
    void ask_to_be_told_of_forks() {
        const std::lock_guard lock(mutex);
        if (told_of_forks) return;
        if (::pthread_atfork(&prepare, &in_parent, &in_child) != 0) throw std::bad_alloc();
        told_of_forks = true;
    }
    static void prepare() {
        Registry& registry = instance();
        registry.mutex.lock();
        for (ForkParty* party : registry.parties) party->lock_for_fork();
    }
    static void in_parent() {
        Registry& registry = instance();
        for (ForkParty* party : registry.parties) party->unlock_after_fork();
        registry.mutex.unlock();
    }
    static void in_child() {
        instance().generation.fetch_add(1, std::memory_order_relaxed);
        in_parent();
    }
};

}   // namespace

std::uint64_t fork_generation() noexcept { return Registry::instance().generation.load(std::memory_order_relaxed); }

ForkParty::ForkParty() : born_(fork_generation()) { Registry::instance().ask_to_be_told_of_forks(); }

void ForkParty::join_forks() {
    Registry& registry = Registry::instance();
    const std::lock_guard lock(registry.mutex);
    registry.parties.push_back(this);
}

void ForkParty::leave_forks() {
    Registry& registry = Registry::instance();
    const std::lock_guard lock(registry.mutex);
    std::erase(registry.parties, this);
}

}   // namespace forebay::stage
