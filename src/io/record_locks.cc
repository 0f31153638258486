#include "io/record_locks.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace forebay::io {

namespace {

struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
    void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

// A line: "lock:  1: POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF".
bool shows_lock(std::FILE* facts, std::uint64_t wanted) noexcept {
    std::array<char, 256> line;
    std::uint64_t inode = 0;
    while (std::fgets(line.data(), line.size(), facts) != nullptr) {
        if (std::sscanf(line.data(), "lock: %*d: POSIX %*s %*s %*d %*x:%*x:%" SCNu64, &inode) == 1 && inode == wanted)
            return true;
    }
    return std::ferror(facts) != 0 && errno != ENOENT;   // closed meanwhile, and its locks ended with it
}

}   // namespace

bool has_record_locks(const Identity& identity) noexcept {
    const std::unique_ptr<DIR, Close> folder(::opendir("/proc/self/fdinfo"));
    if (!folder) return true;
    for (;;) {
        errno = 0;
        const dirent* const entry = ::readdir(folder.get());
        if (entry == nullptr) return errno != 0;
        if (entry->d_name[0] == '.') continue;
        const int number = ::openat(::dirfd(folder.get()), entry->d_name, O_RDONLY | O_CLOEXEC);
        if (number < 0 && errno == ENOENT) continue;   // closed meanwhile
        if (number < 0) return true;
        const std::unique_ptr<std::FILE, Close> facts(::fdopen(number, "r"));
        if (!facts) ::close(number);
        if (!facts || shows_lock(facts.get(), identity.inode)) return true;
    }
}

}   // namespace forebay::io
