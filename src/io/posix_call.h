// System calls and times, for posix_file.cc and posix_directory.cc. Internal.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>

namespace forebay::io {

// Repeats a system call while a signal interrupts it. errno is that of the last try. Blocks as the call does.
template <class Call>
auto restarted(Call call) {
    for (;;) {
        const auto result = call();
        if (result >= 0 || errno != EINTR) return result;
    }
}

inline std::uint64_t modified_ns(const struct stat& facts) {
    return static_cast<std::uint64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(facts.st_mtim.tv_nsec);
}

}   // namespace forebay::io
