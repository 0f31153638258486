// Touching mapped memory that may be gone: a fault becomes an answer instead of the end of the program.
//
// A store to, or a load from, the mapping of a file raises SIGBUS when the page cannot be had: the device failed, the
// file was cut, the quota was used up. `guarded` runs one small action on mapped memory and returns where it faulted.
//
// How. The first mapping that PosixFile makes installs one handler for SIGBUS in the process (SA_SIGINFO, SA_ONSTACK,
// SA_NODEFER); it is never taken out, and its code is never unloaded. It acts only if the thread that faulted is
// inside `guarded` and the address is in a range that it named; then it jumps out of the action (siglongjmp). It also
// acts for memory named with `Replaceable`. Everything else goes to whoever had the signal before: that handler is
// called as the kernel would call it; if there was none, or the fault was to be ignored (which the kernel does not do
// for a fault), the default action is restored, and the instruction faults again and ends the program as ever.
//
// Limits. A program that sets a handler of its own later has the signal, and with it the decision; so has one whose
// handler restores the default. A thread that blocks SIGBUS is ended by the kernel whatever the handler. Memory is
// guarded only where `guarded` is used; docs/recovery.md, "The mapping of the log faults", tells where.
//
// Cost: saving the registers once, about ten nanoseconds. Nothing is locked, allocated or asked of the system.
// Thread-safety: all of it; a guard is its thread's own. Guards nest. Blocks on page faults only.
#pragma once

#include <cstddef>
#include <type_traits>

#include "io/file.h"

namespace forebay::io {

// From now on faults are looked at. Called by whoever maps; later calls do nothing.
void install_fault_handler() noexcept;

namespace detail {
[[nodiscard]] const std::byte* run_guarded(Bytes first, Bytes second, void (*act)(void*), void* argument) noexcept;
}

// Runs `act()`, which touches mapped memory in `first` (and `second`). Returns null if all went well, else the address
// where it faulted: the action was left in the middle, and what it stored until then is stored.
// `act` is a leaf: it takes no lock, allocates nothing, calls nothing that does, and has no local with a destructor.
template <class Act>
[[nodiscard]] const std::byte* guarded(Bytes first, Bytes second, Act&& act) noexcept {
    using Plain = std::remove_reference_t<Act>;
    return detail::run_guarded(
        first, second, [](void* argument) { (*static_cast<Plain*>(argument))(); },
        const_cast<std::remove_const_t<Plain>*>(&act));
}
template <class Act>
[[nodiscard]] const std::byte* guarded(Bytes mapped, Act&& act) noexcept {
    return guarded(mapped, {}, act);
}

// The first byte of `mapped`, page by page, that cannot be loaded; null: all of them can. `from` is where to begin.
[[nodiscard]] const std::byte* find_unreadable(Bytes mapped, const std::byte* from) noexcept;

// Mapped memory of which the process can do without what others store, such as counters shown to others: as long as
// this lives, a page of it that faults is replaced by memory of the process, with the page's bytes if they can be had
// and zeros if not, and the access goes on. Others then no longer see what is stored there. A process can name 256 of
// them; more are not protected.
class Replaceable {
  public:
    explicit Replaceable(MutableBytes mapped) noexcept;
    ~Replaceable();
    Replaceable(const Replaceable&) = delete;
    Replaceable& operator=(const Replaceable&) = delete;

    // A page was replaced. Whoever has stored or loaded, and then finds this false, has done so where all others do.
    [[nodiscard]] bool replaced() const noexcept;
    // False: too many are named already, and this one is not protected.
    [[nodiscard]] bool protects() const noexcept;

  private:
    std::size_t slot_;
};

}   // namespace forebay::io
