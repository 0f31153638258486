// A child process with deadlines for each wait, which can be killed at any instant.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::torture {

// For signals that ask this process to end, and ends of children. Create only one, before other threads exist: it
// changes the signal mask, and the destructor restores that.
class Signals {
  public:
    Signals() = default;
    ~Signals();
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    [[nodiscard]] Status open();
    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
    [[nodiscard]] const sigset_t& mask_before() const noexcept { return mask_before_; }
    // Reads the pending signals. Returns true after the first signal that asks this process to end.
    bool take();
    // The first signal that asked this process to end, or 0.
    [[nodiscard]] int asked() const noexcept { return asked_; }

  private:
    int descriptor_ = -1, asked_ = 0;
    sigset_t mask_before_{};
};

// The destructor kills the child if it still runs, and waits for it without a deadline.
class Killable {
  public:
    // Collects the program's standard output; its standard error goes to the file `error_path`.
    [[nodiscard]] static Result<Killable> start(Signals& signals, const std::vector<std::string>& arguments,
                                                const std::string& error_path);
    ~Killable();
    Killable(Killable&& other) noexcept;
    Killable& operator=(Killable&&) = delete;

    enum class Event : std::uint8_t {
        kOutput,        // the requested number of bytes has arrived
        kEnded,         // the child and all other writers of its output have ended
        kTime,          // the deadline
        kInterrupted,   // a signal asks this process to end
    };
    // `deadline_ns` is a time of monotonic_ns().
    [[nodiscard]] Result<Event> wait(std::uint64_t deadline_ns, std::size_t output_bytes = SIZE_MAX);
    void kill() noexcept;
    void signal(int number) noexcept;

    [[nodiscard]] const std::string& output() const noexcept { return output_; }
    [[nodiscard]] bool ended() const noexcept { return ended_; }   // as far as a call of `wait` has seen
    [[nodiscard]] int wait_status() const noexcept { return wait_status_; }

  private:
    Killable(Signals& signals, pid_t pid, int from) : signals_(&signals), pid_(pid), from_(from) {}
    [[nodiscard]] Status collect();
    void reap(int flags) noexcept;

    Signals* signals_;
    pid_t pid_;
    int from_;   // -1 after the end of the output
    int wait_status_ = 0;
    bool ended_ = false;
    std::string output_;
};

}   // namespace forebay::torture
