// Lets no thread start. Stands in front of pthread_create for the whole test program: one source file of it includes
// this.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace forebay::test {

inline std::atomic<bool> no_threads{false};
inline std::atomic<unsigned> threads_refused{0};

// While it lives, no thread can be had.
class NoThreads {
  public:
    NoThreads() noexcept {
        threads_refused = 0;
        no_threads = true;
    }
    ~NoThreads() { no_threads = false; }
    NoThreads(const NoThreads&) = delete;
    NoThreads& operator=(const NoThreads&) = delete;
    [[nodiscard]] static unsigned refused() noexcept { return threads_refused; }
};

}   // namespace forebay::test

// The sanitizers have their own in this place, which they need.
#if defined(FOREBAY_SANITIZES_ADDRESS) || defined(FOREBAY_SANITIZES_THREAD)
#define FOREBAY_THREADS_ALWAYS_START 1
#else
#define FOREBAY_THREADS_ALWAYS_START 0
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*start)(void*), void* argument) noexcept {
    if (forebay::test::no_threads) {
        ++forebay::test::threads_refused;
        return EAGAIN;
    }
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
    return create(thread, attributes, start, argument);
}
#endif
