#include "io/guarded_access.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace forebay::io {

namespace {

struct AddressRange {
    std::uintptr_t begin = 0, end = 0;
    [[nodiscard]] bool holds(std::uintptr_t address) const noexcept { return address >= begin && address < end; }
};

struct Guard {
    AddressRange ranges[2];
    const Guard* outer = nullptr;
    volatile std::uintptr_t fault = 0;
    sigjmp_buf jump;
};

thread_local Guard* current = nullptr;

struct Shared {
    std::uintptr_t page = 4096;
    struct sigaction previous{};
    std::atomic<bool> previous_used_up{false};   // SA_RESETHAND
    struct Slot {
        std::atomic<std::uintptr_t> begin{0}, end{0};
        std::atomic<bool> replaced{false};
    };
    std::array<Slot, 256> replaceable;
};

Shared& shared() noexcept {
    static Shared the_one;   // trivially destructible, so usable at any time
    return the_one;
}
static_assert(std::is_trivially_destructible_v<Shared>);

AddressRange whole_pages(Bytes bytes) noexcept {
    if (bytes.empty()) return {};
    const std::uintptr_t page = shared().page, begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    return {begin / page * page, (begin + bytes.size() + page - 1) / page * page};
}

// Returns true for a fault of the thread's own access, and false for a sent signal or advice about untouched memory.
bool is_access(const siginfo_t& info) noexcept {
    return info.si_code == BUS_ADRERR || info.si_code == BUS_OBJERR || info.si_code == BUS_MCEERR_AR;
}

void take_default_action(const siginfo_t& info) noexcept {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGBUS, &action, nullptr);
    if (info.si_code <= 0) ::raise(SIGBUS);   // a sent signal does not repeat itself
}

void hand_on(int signal, siginfo_t* info, void* context) noexcept {
    Shared& all = shared();
    const struct sigaction& previous = all.previous;
    const bool takes_info = (previous.sa_flags & SA_SIGINFO) != 0;
    if (!takes_info && previous.sa_handler == SIG_IGN && info->si_code <= 0) return;
    const bool none = !takes_info && (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN);
    if (none || all.previous_used_up.load()) return take_default_action(*info);
    if ((static_cast<unsigned>(previous.sa_flags) & SA_RESETHAND) != 0 && all.previous_used_up.exchange(true))
        return take_default_action(*info);

    sigset_t blocked = previous.sa_mask, before;
    if ((previous.sa_flags & SA_NODEFER) == 0) ::sigaddset(&blocked, signal);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
    if (takes_info) previous.sa_sigaction(signal, info, context);
    else previous.sa_handler(signal);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Calls the kernel directly: hooks of libraries (UCX, which MPI loads) are unsafe in a handler, or lose the address.
std::byte* map_page(std::size_t size) noexcept {
    const long at = ::syscall(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == -1 ? nullptr : reinterpret_cast<std::byte*>(at);
}
bool move_page(std::byte* from, std::size_t size, std::uintptr_t to) noexcept {
    return ::syscall(SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == static_cast<long>(to);
}

// Replaces the page at `page` by one of the process with the same bytes. Returns false if the system has no page left.
bool replace_page(std::uintptr_t page) noexcept {
    const std::size_t size = shared().page;
    std::byte* const fresh = map_page(size);
    if (fresh == nullptr) return false;
    const auto* const from = reinterpret_cast<const std::byte*>(page);
    (void)guarded(Bytes(from, size), [&]() noexcept { std::memcpy(fresh, from, size); });
    return move_page(fresh, size, page);
}

void on_fault(int signal, siginfo_t* info, void* context) {
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    if (is_access(*info)) {
        Guard* const guard = current;
        if (guard != nullptr && (guard->ranges[0].holds(address) || guard->ranges[1].holds(address))) {
            guard->fault = address;
            ::siglongjmp(guard->jump, 1);
        }
        Shared& all = shared();
        for (Shared::Slot& slot : all.replaceable) {
            if (!AddressRange{slot.begin.load(), slot.end.load()}.holds(address)) continue;
            const int error = errno;
            slot.replaced = true;   // set before any store to the new page
            const bool replaced = replace_page(address / all.page * all.page);
            errno = error;
            if (replaced) return;
        }
    }
    hand_on(signal, info, context);
}

}   // namespace

void install_fault_handler() noexcept {
    static const bool installed = [] {
        Shared& all = shared();
        if (const long page = ::sysconf(_SC_PAGESIZE); page > 0) all.page = static_cast<std::uintptr_t>(page);
        current = nullptr;   // creates this thread's copy before its first use
        // The earlier handler must be known before ours can run.
        ::sigaction(SIGBUS, nullptr, &all.previous);
        struct sigaction action{};
        action.sa_sigaction = &on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        ::sigemptyset(&action.sa_mask);
        return ::sigaction(SIGBUS, &action, nullptr) == 0;
    }();
    (void)installed;
}

namespace detail {

// Out of line, and with `act` behind a pointer, so the compiler moves no access before the guard.
[[gnu::noinline]] const std::byte* run_guarded(Bytes first, Bytes second, void (*act)(void*), void* argument) noexcept {
    Guard guard;
    guard.ranges[0] = whole_pages(first);
    guard.ranges[1] = whole_pages(second);
    guard.outer = current;
    if (sigsetjmp(guard.jump, 0) != 0) {
        current = const_cast<Guard*>(guard.outer);
        return reinterpret_cast<const std::byte*>(guard.fault);
    }
    current = &guard;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    act(argument);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    current = const_cast<Guard*>(guard.outer);
    return nullptr;
}

}   // namespace detail

const std::byte* find_unreadable(Bytes mapped, const std::byte* from) noexcept {
    const std::uintptr_t page = shared().page;
    return guarded(mapped, [&]() noexcept {
        const auto end = reinterpret_cast<std::uintptr_t>(mapped.data() + mapped.size());
        for (auto at = reinterpret_cast<std::uintptr_t>(from); at < end; at = (at / page + 1) * page)
            (void)*reinterpret_cast<const volatile std::byte*>(at);
    });
}

Replaceable::Replaceable(MutableBytes mapped) noexcept : slot_(0) {
    const AddressRange range = whole_pages(mapped);
    for (auto& slot : shared().replaceable) {
        std::uintptr_t none = 0;
        if (slot.begin.compare_exchange_strong(none, range.begin)) {
            slot.replaced = false;
            slot.end = range.end;
            return;
        }
        ++slot_;
    }
}

bool Replaceable::replaced() const noexcept {
    return slot_ < shared().replaceable.size() && shared().replaceable[slot_].replaced;
}

bool Replaceable::protects() const noexcept { return slot_ < shared().replaceable.size(); }

Replaceable::~Replaceable() {
    if (slot_ == shared().replaceable.size()) return;
    shared().replaceable[slot_].end = 0;
    shared().replaceable[slot_].begin = 0;
}

}   // namespace forebay::io
