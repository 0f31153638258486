#include "io/path.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string_view>

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

}   // namespace forebay::io
