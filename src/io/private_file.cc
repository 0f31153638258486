#include "io/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "io/file.h"
#include "io/own_descriptor.h"

namespace forebay::io {

namespace {

Status check_rights(const struct stat& facts, const std::string& path, const char* remedy) {
    if (facts.st_uid != ::geteuid())
        return {Code::kPermissionDenied, fmt::format("{}: it belongs to user {}", path, facts.st_uid)};
    if ((facts.st_mode & Facts::kRightsOfOthers) != 0)
        return {Code::kPermissionDenied, fmt::format("{}: others than its owner have rights to it ({})", path, remedy)};
    return Status::ok();
}

Status check_owner(int number, const std::string& path) {
    struct stat facts{};
    if (::fstat(number, &facts) != 0) return Status::from_errno(errno, "look at " + path);
    if (!S_ISREG(facts.st_mode)) return {Code::kInvalidArgument, path + ": it is not a regular file"};
    return check_rights(facts, path, "chmod 600");
}

Status make_unnamed(const std::string& path, std::string_view text, std::string& unnamed) {
    unnamed = path + ".XXXXXX";
    OwnDescriptor file(::mkostemp(unnamed.data(), O_CLOEXEC));   // mode 0600
    if (!file) return Status::from_errno(errno, "make " + unnamed);
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    Status made = written == static_cast<ssize_t>(text.size())
                      ? Status::ok()
                      : Status::from_errno(written < 0 ? errno : ENOSPC, "write " + unnamed);
    if (made && file.close() != 0) made = Status::from_errno(errno, "close " + unnamed);
    if (!made) (void)::unlink(unnamed.c_str());
    return made;
}

}   // namespace

Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max) {
    const OwnDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file) return Status::from_errno(errno, "open " + path);
    FOREBAY_TRY(check_owner(file.number(), path));
    std::string text(bytes_max + 1, '\0');
    std::size_t length = 0;
    while (length < text.size()) {
        const ssize_t got = ::read(file.number(), text.data() + length, text.size() - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "read " + path);
        if (got == 0) break;
        length += static_cast<std::size_t>(got);
    }
    if (length > bytes_max)
        return Status(Code::kInvalidArgument, fmt::format("{}: it has more than {} bytes", path, bytes_max));
    text.resize(length);
    return text;
}

Status make_private_file(const std::string& path, std::string_view text) {
    std::error_code failed;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty() && !std::filesystem::exists(folder, failed)) {
        std::filesystem::create_directories(folder, failed);
        if (failed) return Status::from_errno(failed.value(), "make " + folder.string());
        std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
        if (failed) return Status::from_errno(failed.value(), "set the mode of " + folder.string());
    }
    std::string unnamed;
    FOREBAY_TRY(make_unnamed(path, text, unnamed));
    Status made;
    if (::link(unnamed.c_str(), path.c_str()) != 0 && errno != EEXIST) made = Status::from_errno(errno, "make " + path);
    if (::unlink(unnamed.c_str()) != 0 && made) made = Status::from_errno(errno, "remove " + unnamed);
    return made;
}

Status replace_private_file(const std::string& path, std::string_view text) {
    std::string unnamed;
    FOREBAY_TRY(make_unnamed(path, text, unnamed));
    if (::rename(unnamed.c_str(), path.c_str()) == 0) return Status::ok();
    const int error = errno;
    (void)::unlink(unnamed.c_str());
    return Status::from_errno(error, "make " + path);
}

Status make_private_directory(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Status::from_errno(errno, "make " + path);
    const OwnDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder && (errno == ENOTDIR || errno == ELOOP))
        return {Code::kInvalidArgument, path + ": it is not a directory"};
    if (!folder) return Status::from_errno(errno, "open " + path);
    struct stat facts{};
    if (::fstat(folder.number(), &facts) != 0) return Status::from_errno(errno, "look at " + path);
    return check_rights(facts, path, "chmod 700");
}

}   // namespace forebay::io
