#include "io/path.h"

#include <dirent.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "io/posix_file.h"

namespace forebay::io {

namespace {

std::string working_directory() {
    struct Free {
        void operator()(char* text) const noexcept { std::free(text); }
    };
    const std::unique_ptr<char, Free> text(::getcwd(nullptr, 0));
    // One that lies outside of the process's root is "(unreachable)/…".
    return text != nullptr && *text == '/' ? std::string(text.get()) : std::string();
}

std::string path_of(int descriptor) {
    constexpr std::string_view kDeleted = " (deleted)";
    std::array<char, PATH_MAX> target;
    const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), target.data(),
                                      target.size());
    if (length <= 0 || static_cast<std::size_t>(length) == target.size() || target.front() != '/') return {};
    const std::string_view path(target.data(), static_cast<std::size_t>(length));
    return path.ends_with(kDeleted) ? std::string() : std::string(path);
}

}   // namespace

std::string complete_path(const std::string& name, int descriptor) {
    if (name.starts_with('/')) return name;
    if (const std::string directory = working_directory(); !directory.empty())
        return (directory == "/" ? "" : directory) + "/" + name;
    if (descriptor >= 0)
        if (std::string path = path_of(descriptor); !path.empty()) return path;
    return name;
}

std::string usable_path(const std::string& name) {
    std::string path = complete_path(name);
    return path.size() < PATH_MAX ? path : name;
}

std::string find_beside(const std::string& path, const Identity& identity) {
    struct Close {
        void operator()(DIR* folder) const noexcept { ::closedir(folder); }
    };
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const std::unique_ptr<DIR, Close> opened(folder.empty() ? nullptr : ::opendir(folder.c_str()));
    if (!opened) return {};
    while (const dirent* const entry = ::readdir(opened.get())) {
        if (entry->d_ino != identity.inode) continue;
        const std::string found = folder + static_cast<const char*>(entry->d_name);
        if (const auto is = identify(found); is && is.value() == identity) return found;
    }
    return {};
}

}   // namespace forebay::io
