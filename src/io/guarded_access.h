// Access to mapped memory that may fail: a fault becomes a return value instead of the end of the program. A load or
// store in a file's mapping raises SIGBUS without a page: after a device error, a truncation, or at the quota.
// `guarded` runs one small action on mapped memory and returns the address of a fault.
// The first mapping that PosixFile makes installs one SIGBUS handler in the process (SA_SIGINFO, SA_ONSTACK,
// SA_NODEFER). It is never removed, and its code is never unloaded. It acts on memory named with `Replaceable`, and
// inside `guarded` on addresses in a named range: there it jumps out of the action (siglongjmp). Other faults go to the
// earlier handler, called as the kernel would. Without one, or if SIGBUS was ignored (which the kernel does not do for
// a fault), the default action is restored. The instruction then faults again and ends the program.
// Limits: a handler that the program sets later, or that restores the default action, replaces this one. The kernel
// ends a thread that blocks SIGBUS. docs/recovery.md, "The mapping of the log faults", lists the guarded accesses.
// Cost: saving the registers once, about ten nanoseconds, without locks, allocations or system calls. Thread-safety:
// all functions; a guard belongs to its thread. Guards nest. Blocks on page faults only.
#pragma once

#include <cstddef>
#include <type_traits>

#include "io/file.h"

namespace forebay::io {

// Installs the handler. Each code that maps a file calls it; later calls do nothing.
void install_fault_handler() noexcept;

namespace detail {
[[nodiscard]] const std::byte* run_guarded(Bytes first, Bytes second, void (*act)(void*), void* argument) noexcept;
}

// Runs `act()`, which uses mapped memory in `first` (and `second`). Returns null on success, else the address of the
// fault: the action stopped in the middle, and its earlier stores remain. `act` is a leaf: it takes no lock, does not
// allocate, calls no function that does, and has no local with a destructor.
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

// Returns the first byte of `mapped` that cannot be loaded, page by page from `from` on, or null if all can be loaded.
[[nodiscard]] const std::byte* find_unreadable(Bytes mapped, const std::byte* from) noexcept;

// Mapped memory whose sharing is dispensable, such as counters shown to other processes. While this object lives, a
// faulting page is replaced by memory of the process with the page's bytes, or zeros if they are unreadable. The access
// continues, and other processes no longer see stores. A process can name 256; further ones are not protected.
class Replaceable {
  public:
    explicit Replaceable(MutableBytes mapped) noexcept;
    ~Replaceable();
    Replaceable(const Replaceable&) = delete;
    Replaceable& operator=(const Replaceable&) = delete;

    // Returns true after the replacement of a page. False after an access means that it used the shared page.
    [[nodiscard]] bool replaced() const noexcept;
    // Returns false if this one is not protected, because too many are named already.
    [[nodiscard]] bool protects() const noexcept;

  private:
    std::size_t slot_;
};

}   // namespace forebay::io
