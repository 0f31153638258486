// A child process that is waited for with a deadline, and can be killed at any instant.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::torture {

// Signals that ask this process to end, and the ends of children, as something to wait for. One at a time; to be
// created before other threads exist: it changes the signal mask, and puts it back when destroyed.
class Signals {
  public:
    Signals() = default;
    ~Signals();
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    [[nodiscard]] Status open();
    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
    [[nodiscard]] const sigset_t& mask_before() const noexcept { return mask_before_; }
    // Takes what has arrived. True from the first signal on that asks to end.
    bool take();
    // The first one that asked to end; 0: none.
    [[nodiscard]] int asked() const noexcept { return asked_; }

  private:
    int descriptor_ = -1, asked_ = 0;
    sigset_t mask_before_{};
};

// Killed, and waited for without a deadline, if it is still there when this is destroyed.
class Killable {
  public:
    // Starts the program `arguments.front()`. Its standard output is collected; its standard error goes to the file
    // `words`.
    [[nodiscard]] static Result<Killable> start(Signals& signals, const std::vector<std::string>& arguments,
                                                const std::string& words);
    ~Killable();
    Killable(Killable&& other) noexcept;
    Killable& operator=(Killable&&) = delete;

    enum class Event : std::uint8_t {
        kOutput,        // so many bytes have come
        kEnded,         // and so has everybody else who could write to its output
        kTime,          // the deadline
        kInterrupted,   // a signal asks this process to end
    };
    // `deadline_ns` is a time of monotonic_ns().
    [[nodiscard]] Result<Event> wait(std::uint64_t deadline_ns, std::size_t output_bytes = SIZE_MAX);
    void kill() noexcept;
    void signal(int number) noexcept;

    [[nodiscard]] const std::string& output() const noexcept { return output_; }
    [[nodiscard]] bool ended() const noexcept { return ended_; }   // as far as it was waited for
    // After kEnded: as waitpid has it.
    [[nodiscard]] int wait_status() const noexcept { return wait_status_; }

  private:
    Killable(Signals& signals, pid_t pid, int from) : signals_(&signals), pid_(pid), from_(from) {}
    [[nodiscard]] Status collect();
    void reap(int flags) noexcept;

    Signals* signals_;
    pid_t pid_;
    int from_;   // -1: its output has ended
    int wait_status_ = 0;
    bool ended_ = false;
    std::string output_;
};

}   // namespace forebay::torture
