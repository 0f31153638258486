#include "wire/key_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/attempt.h"

namespace forebay::wire {

namespace {

constexpr std::size_t kTextBytes = 2 * std::tuple_size_v<SealKey> + 1;

Status no_key(const std::string& path) {
    return {Code::kInvalidArgument, path + ": it has no key, which is 64 hexadecimal digits"};
}

Result<SealKey> key_in(std::string_view text, const std::string& path) {
    if (text.size() != kTextBytes || text.back() != '\n') return no_key(path);
    SealKey key;
    for (std::size_t i = 0; i < key.size(); ++i) {
        unsigned value = 0;
        const char* const from = text.data() + 2 * i;
        const auto end = std::from_chars(from, from + 2, value, 16);
        if (end.ec != std::errc() || end.ptr != from + 2) return no_key(path);
        key[i] = static_cast<std::byte>(value);
    }
    return key;
}

std::string key_as_text(const SealKey& key) {
    std::string text;
    for (const std::byte byte : key) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return text + '\n';
}

class OpenFile {
  public:
    explicit OpenFile(int number) noexcept : number_(number) {}
    ~OpenFile() {
        if (number_ >= 0) ::close(number_);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    [[nodiscard]] int number() const noexcept { return number_; }

  private:
    int number_;
};

Status check_owner(int number, const std::string& path) {
    struct stat facts{};
    if (::fstat(number, &facts) != 0) return Status::from_errno(errno, "look at " + path);
    if (!S_ISREG(facts.st_mode)) return {Code::kInvalidArgument, path + ": it is no file"};
    if (facts.st_uid != ::geteuid())
        return {Code::kPermissionDenied, fmt::format("{}: it belongs to user {}", path, facts.st_uid)};
    if ((facts.st_mode & 077) != 0)
        return {Code::kPermissionDenied, path + ": others than its owner have rights to it (chmod 600)"};
    return Status::ok();
}

// Complete when it gets its name; whoever is first has made the key.
Status make(const std::string& path) {
    const auto key = new_secret();
    if (!key) return key.status();
    std::error_code failed;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!std::filesystem::exists(folder, failed)) {
        std::filesystem::create_directories(folder, failed);
        if (failed) return Status::from_errno(failed.value(), "make " + folder.string());
        std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
        if (failed) return Status::from_errno(failed.value(), "set the mode of " + folder.string());
    }
    const std::string first = fmt::format("{}.{}~", path, ::getpid());
    const OpenFile file(::open(first.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.number() < 0) return Status::from_errno(errno, "make " + first);
    const std::string text = key_as_text(key.value());
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    Status made = written == static_cast<ssize_t>(text.size())
                      ? Status::ok()
                      : Status::from_errno(written < 0 ? errno : ENOSPC, "write " + first);
    if (made && ::link(first.c_str(), path.c_str()) != 0 && errno != EEXIST)
        made = Status::from_errno(errno, "make " + path);
    (void)::unlink(first.c_str());
    return made;
}

}   // namespace

std::string key_file(const std::string& option) {
    if (!option.empty()) return option;
    const char* const home = std::getenv("HOME");
    return home != nullptr && *home == '/' ? std::string(home) + "/.config/forebay/server.key" : std::string();
}

Result<SealKey> read_key(const std::string& path) {
    if (path.empty()) return Status(Code::kNotFound, "there is no home directory for the key (option server_key)");
    const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.number() < 0) return Status::from_errno(errno, "open the key " + path);
    FOREBAY_TRY(check_owner(file.number(), path));
    std::array<char, kTextBytes + 1> text{};
    std::size_t length = 0;
    while (length < text.size()) {
        const ssize_t got = ::read(file.number(), text.data() + length, text.size() - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "read the key " + path);
        if (got == 0) break;
        length += static_cast<std::size_t>(got);
    }
    return key_in({text.data(), length}, path);
}

Result<SealKey> read_or_make_key(const std::string& path) {
    auto key = read_key(path);
    if (key || path.empty() || key.status().code() != Code::kNotFound) return key;
    FOREBAY_TRY(make(path));
    return read_key(path);
}

}   // namespace forebay::wire
