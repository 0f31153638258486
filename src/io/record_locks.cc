#include "io/record_locks.h"

#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

namespace forebay::io {

// A line: "1: POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF". A waiting lock has "->" before the kind.
bool has_record_locks(const Identity& identity) noexcept {
    struct Close {
        void operator()(std::FILE* file) const noexcept { std::fclose(file); }
    };
    const std::unique_ptr<std::FILE, Close> locks(std::fopen("/proc/locks", "re"));
    if (!locks) return true;
    std::array<char, 256> line;
    while (std::fgets(line.data(), line.size(), locks.get()) != nullptr) {
        long process = 0;
        std::uint64_t inode = 0;
        if (std::sscanf(line.data(), "%*s POSIX %*s %*s %ld %*x:%*x:%" SCNu64, &process, &inode) == 2 &&
            process == ::getpid() && inode == identity.inode)
            return true;
    }
    return std::ferror(locks.get()) != 0;
}

}   // namespace forebay::io
