#include "io/forked_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

namespace forebay::io {

bool is_forked() noexcept {
    constexpr unsigned kForkedWithoutExec = 0x40;   // the kernel's PF_FORKNOEXEC
    constexpr int kFlagsAt = 6;                     // fields after the name, which may contain spaces and parentheses
    std::array<char, 1024> text;
    const int descriptor = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return true;
    const ssize_t got = ::read(descriptor, text.data(), text.size());
    ::close(descriptor);
    if (got <= 0) return true;
    std::string_view rest(text.data(), static_cast<std::size_t>(got));
    const std::size_t name_end = rest.rfind(')');
    if (name_end == std::string_view::npos || name_end + 2 > rest.size()) return true;
    rest.remove_prefix(name_end + 2);
    for (int field = 0; field < kFlagsAt; ++field) {
        const std::size_t space = rest.find(' ');
        if (space == std::string_view::npos) return true;
        rest.remove_prefix(space + 1);
    }
    unsigned flags = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), flags).ec != std::errc{}) return true;
    return (flags & kForkedWithoutExec) != 0;
}

}   // namespace forebay::io
