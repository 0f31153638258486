#include "io/path.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace forebay::io {

namespace {

std::string working_directory() {
    struct Free {
        void operator()(char* text) const noexcept { std::free(text); }
    };
    const std::unique_ptr<char, Free> text(::getcwd(nullptr, 0));
    // A directory outside the process's root is "(unreachable)/…".
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

namespace {

class Searching {
  public:
    Searching(const Identity& identity, std::size_t names_max) noexcept : identity_(identity), left_(names_max) {}

    // Searches `folder` and below, except `but`, which was searched before. Returns true if it found the file.
    bool look(const std::string& folder, const std::string& but) {
        std::vector<std::string> folders{folder};
        while (!folders.empty()) {
            const std::string at = std::move(folders.back());
            folders.pop_back();
            if (look_in(at, but, folders)) return true;
        }
        return false;
    }
    std::string found;
    bool complete = true;

  private:
    struct Close {
        void operator()(DIR* folder) const noexcept { ::closedir(folder); }
    };
    bool look_in(const std::string& folder, const std::string& but, std::vector<std::string>& folders) {
        const std::unique_ptr<DIR, Close> opened(::opendir(folder.empty() ? "/" : folder.c_str()));
        if (!opened) {
            complete = complete && errno == ENOENT;
            return false;
        }
        for (;;) {
            errno = 0;
            const dirent* const entry = ::readdir(opened.get());
            if (entry == nullptr) {
                complete = complete && errno == 0;
                return false;
            }
            const std::string_view name = static_cast<const char*>(entry->d_name);
            if (name == "." || name == "..") continue;
            if (left_ == 0) {
                complete = false;
                return false;
            }
            --left_;
            std::string path = folder + "/";
            path += name;
            // The folder's own numbers do not count: some file systems have other ones there.
            struct stat facts{};
            if (::fstatat(::dirfd(opened.get()), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
                complete = complete && errno == ENOENT;
            } else if (facts.st_dev == identity_.device) {
                if (S_ISREG(facts.st_mode) && facts.st_ino == identity_.inode) {
                    found = std::move(path);
                    return true;
                }
                if (S_ISDIR(facts.st_mode) && path != but) folders.push_back(std::move(path));
            }
        }
    }

    const Identity identity_;
    std::size_t left_;
};

}   // namespace

namespace {

// The first folder at or above `folder` that exists, by its path without symbolic links; none: it cannot be told.
std::optional<std::string> existing_folder(std::string folder) {
    for (;;) {
        std::error_code error;
        const std::filesystem::path real = std::filesystem::canonical(folder.empty() ? "/" : folder, error);
        if (!error) return real == "/" ? std::string() : real.string();
        if (folder.empty() || (error.value() != ENOENT && error.value() != ENOTDIR)) return std::nullopt;
        folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
    }
}

}   // namespace

bool same_place(const std::string& one, const std::string& other) {
    if (one == other) return true;
    const std::filesystem::path first = one, second = other;
    if (first.filename() != second.filename()) return false;
    // A folder that does not exist may end with a slash here; with the name behind it that makes no difference.
    std::error_code error;
    const auto place = std::filesystem::weakly_canonical(first.parent_path(), error) / first.filename();
    return !error && place == std::filesystem::weakly_canonical(second.parent_path(), error) / second.filename() &&
           !error;
}

std::string find_file(const std::string& path, const Identity& identity, std::size_t names_max) {
    if (!path.starts_with('/')) return {};
    auto folder = existing_folder(path.substr(0, path.rfind('/')));
    Searching searching(identity, names_max);
    for (std::string but; folder;) {
        struct stat facts{};
        // Above the root of the file system, or its mount is gone.
        if (::stat(folder->empty() ? "/" : folder->c_str(), &facts) != 0 || facts.st_dev != identity.device) return {};
        if (searching.look(*folder, but)) return std::move(searching.found);
        if (!searching.complete || folder->empty()) return {};
        but = *folder;
        folder->resize(folder->rfind('/'));
    }
    return {};
}

}   // namespace forebay::io
