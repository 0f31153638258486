#include "io/shown_name.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>

#include "io/own_descriptor.h"

namespace forebay::io {

bool show_name(const char* name) noexcept {
    const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const OwnDescriptor file(::memfd_create(name, MFD_CLOEXEC));
    if (!file) return false;
    void* const page = ::mmap(nullptr, page_bytes, PROT_NONE, MAP_SHARED, file.number(), 0);
    if (page == MAP_FAILED) return false;
    if (::madvise(page, page_bytes, MADV_DONTFORK) == 0) return true;
    ::munmap(page, page_bytes);
    return false;
}

bool shows_name(std::uint64_t pid, const char* name) {
    std::ifstream file(fmt::format("/proc/{}/maps", pid));
    const std::string shown = fmt::format("/memfd:{} ", name);   // " (deleted)" follows
    for (std::string line; std::getline(file, line);)
        if (line.find(shown) != std::string::npos) return true;
    return false;
}

}   // namespace forebay::io
