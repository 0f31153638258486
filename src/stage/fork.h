// The effect of a fork on staging. A child inherits memory but no threads. A fork takes every registered party's state
// lock (pthread_atfork), so the child finds consistent state, and no lock of a thread that is gone. The child may read,
// but must neither drain nor release what is the parent's.
#pragma once

#include <cstdint>

namespace forebay::stage {

// Raised in every child. A party keeps its creation's value; another value means that the process inherited it.
[[nodiscard]] std::uint64_t fork_generation() noexcept;

class ForkParty {
  public:
    ForkParty();   // may throw std::bad_alloc
    virtual ~ForkParty() = default;
    ForkParty(const ForkParty&) = delete;
    ForkParty& operator=(const ForkParty&) = delete;

    // Take and give back all locks that protect state a child may look at.
    virtual void lock_for_fork() = 0;
    virtual void unlock_after_fork() = 0;

    [[nodiscard]] bool inherited() const noexcept { return fork_generation() != born_; }

  protected:
    // A fork between these calls takes the locks. The first is the constructor's last call. The
    // second is the destructor's first call. A child must not reach that destructor.
    void join_forks();
    void leave_forks();

  private:
    const std::uint64_t born_;
};

}   // namespace forebay::stage
