// Makes the Nth allocation fail. Replaces the operators for the whole test program: one source file of it
// includes this.
#pragma once

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace forebay::test {

inline std::atomic<long> allocations_until_failure{std::numeric_limits<long>::max()};
inline std::atomic<bool> failing_for_ever{false};   // once one has failed, all do

inline bool allocation_fails() noexcept {
    const long left = allocations_until_failure.fetch_sub(1);
    return left == 1 || (left < 1 && failing_for_ever);
}

// While it lives, the `nth` allocation from its beginning fails, and only that one.
class FailingAllocation {
  public:
    explicit FailingAllocation(long nth) noexcept { allocations_until_failure = nth; }
    ~FailingAllocation() { allocations_until_failure = std::numeric_limits<long>::max(); }
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;
};

// Calls `act` with its first, second, ... allocation failing until it succeeds, and `check` after each
// failure. Returns how often it failed.
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
// std::stable_sort asks this one, and makes do without.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    if (forebay::test::allocation_fails()) return nullptr;
    return std::malloc(size > 0 ? size : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
