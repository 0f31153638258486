// The mutex types of the standard library, with annotations for clang's thread-safety analysis.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/annotations.h"

namespace forebay {

class CAPABILITY("mutex") Mutex {
  public:
    Mutex() = default;
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;

    void lock() ACQUIRE() { mutex_.lock(); }
    void unlock() RELEASE() { mutex_.unlock(); }
    [[nodiscard]] bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
    // Call this where an interface hides the lock. The caller holds the lock.
    void assert_held() const ASSERT_CAPABILITY(this) {}

  private:
    friend class Condition;
    std::mutex mutex_;
};

struct Locked {};
inline constexpr Locked kLocked{};

class SCOPED_CAPABILITY LockGuard {
  public:
    explicit LockGuard(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
    LockGuard(Mutex& mutex, Locked /*held*/) REQUIRES(mutex) : mutex_(mutex) {}
    ~LockGuard() RELEASE() { mutex_.unlock(); }
    LockGuard(const LockGuard&) = delete;
    LockGuard& operator=(const LockGuard&) = delete;

  private:
    Mutex& mutex_;
};

// Drops a held lock until destruction.
class SCOPED_CAPABILITY Unlocked {
  public:
    explicit Unlocked(Mutex& mutex) RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
    ~Unlocked() RELEASE() { mutex_.lock(); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

  private:
    Mutex& mutex_;
};

class Condition {
  public:
    void wait(Mutex& mutex) REQUIRES(mutex) {
        std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
        condition_.wait(lock);
        lock.release();
    }
    // Returns false if `until` has passed.
    template <class TimePoint>
    bool wait_until(Mutex& mutex, const TimePoint& until) REQUIRES(mutex) {
        std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
        const bool in_time = condition_.wait_until(lock, until) == std::cv_status::no_timeout;
        lock.release();
        return in_time;
    }
    void notify_all() noexcept { condition_.notify_all(); }

  private:
    std::condition_variable condition_;
};

}   // namespace forebay
