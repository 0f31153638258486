#include "wire/signal_handlers.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>

namespace forebay::wire {

namespace {

int note_object(dl_phdr_info* object, std::size_t, void* into) {
    static_cast<std::vector<std::uintptr_t>*>(into)->push_back(object->dlpi_addr);
    return 0;
}

void* handler_of(const struct sigaction& action) noexcept {
    void* handler;   // both are one word, of a union
    std::memcpy(&handler, &action.sa_sigaction, sizeof handler);
    return handler;
}

}   // namespace

SignalHandlersKept::SignalHandlersKept() {
    for (int signal = 1; signal < NSIG; ++signal)
        (void)::sigaction(signal, nullptr, &before_[static_cast<std::size_t>(signal)]);
    (void)::dl_iterate_phdr(note_object, &loaded_);
}

SignalHandlersKept::~SignalHandlersKept() {
    for (int signal = 1; signal < NSIG; ++signal) {
        const struct sigaction& before = before_[static_cast<std::size_t>(signal)];
        struct sigaction now{};
        if (::sigaction(signal, nullptr, &now) != 0 || handler_of(now) == handler_of(before)) continue;
        Dl_info object{};
        link_map* map = nullptr;
        void* extra = nullptr;
        if (::dladdr1(handler_of(now), &object, &extra, RTLD_DL_LINKMAP) == 0) continue;   // SIG_IGN, SIG_DFL too
        map = static_cast<link_map*>(extra);
        if (std::find(loaded_.begin(), loaded_.end(), map->l_addr) == loaded_.end())
            (void)::sigaction(signal, &before, nullptr);
    }
}

}   // namespace forebay::wire
