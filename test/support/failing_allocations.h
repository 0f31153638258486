// Makes the Nth allocation fail. Replaces the operators for the complete test program, so only one source file may
// include this.
#pragma once

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace forebay::test {

inline std::atomic<long> allocations_until_failure{std::numeric_limits<long>::max()};
inline std::atomic<bool> failing_for_ever{false};   // all later allocations fail too

inline bool allocation_fails() noexcept {
    const long left = allocations_until_failure.fetch_sub(1);
    return left == 1 || (left < 1 && failing_for_ever);
}

// Makes only the `nth` allocation after its construction fail.
class FailingAllocation {
  public:
    explicit FailingAllocation(long nth) noexcept { allocations_until_failure = nth; }
    ~FailingAllocation() { allocations_until_failure = std::numeric_limits<long>::max(); }
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;
};

// Counts the allocations of all threads while it lives, and lets none fail.
class CountedAllocations {
  public:
    CountedAllocations() noexcept { allocations_until_failure = std::numeric_limits<long>::max(); }
    [[nodiscard]] long count() const noexcept {
        return std::numeric_limits<long>::max() - allocations_until_failure.load();
    }
};

// Makes all allocations fail while it lives.
class NoMemory {
  public:
    NoMemory() noexcept {
        failing_for_ever = true;
        allocations_until_failure = 1;
    }
    ~NoMemory() {
        failing_for_ever = false;
        allocations_until_failure = std::numeric_limits<long>::max();
    }
    NoMemory(const NoMemory&) = delete;
    NoMemory& operator=(const NoMemory&) = delete;
};

// Calls `act` with its first, second, ... allocation failing until it succeeds, and `check` after each failure. Returns
// the number of failures.
template <class Prepare, class Act, class Check>
long fail_each_allocation(Prepare&& prepare, Act&& act, Check&& check) {
    for (long nth = 1;; ++nth) {
        prepare();
        try {
            const FailingAllocation failing(nth);
            act();
            return nth - 1;
        } catch (const std::bad_alloc&) {
        }
        check();
    }
}

}   // namespace forebay::test

[[gnu::noinline]] void* operator new(std::size_t size) {
    if (forebay::test::allocation_fails()) throw std::bad_alloc();
    void* const memory = std::malloc(size > 0 ? size : 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
// std::stable_sort calls this operator, and works without the memory.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    if (forebay::test::allocation_fails()) return nullptr;
    return std::malloc(size > 0 ? size : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
