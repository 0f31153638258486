// Prevents the start of threads. Replaces pthread_create for the complete test program, so only one source file may
// include this.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace forebay::test {

inline std::atomic<bool> no_threads{false};
inline std::atomic<unsigned> threads_refused{0};

// No thread can start during the lifetime of this object.
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

// The sanitizers need their own pthread_create.
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
