#include "caller.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <memory>
#include <string>

namespace forebay::slowfs {

namespace {

// Returns 0 if the process is unknown.
pid_t look_up(pid_t thread) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> status(
        std::fopen(("/proc/" + std::to_string(thread) + "/status").c_str(), "re"), &std::fclose);
    if (!status) return 0;
    constexpr char kName[] = "Tgid:";
    char line[256];
    while (std::fgets(line, sizeof line, status.get()) != nullptr)
        if (std::strncmp(line, kName, sizeof kName - 1) == 0)
            return static_cast<pid_t>(std::strtol(line + sizeof kName - 1, nullptr, 10));
    return 0;
}

}   // namespace

pid_t Callers::process_of(pid_t thread, std::int64_t now_ns) {
    const std::scoped_lock lock(mutex_);
    if (known_.size() >= kKept) known_.clear();
    Known& known = known_[thread];
    if (known.process != 0 && now_ns - known.since_ns < kBelievedNs) return known.process;
    const pid_t found = look_up(thread);
    if (found != 0) known = {.process = found, .since_ns = now_ns};
    return known.process != 0 ? known.process : thread;
}

}   // namespace forebay::slowfs
