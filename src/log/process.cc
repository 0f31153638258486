#include "log/process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>

#include "io/claim.h"

namespace forebay::log {

namespace {

// Of a process that runs: one that has ended and was not waited for is gone.
Result<std::uint64_t> start_ticks_of(std::uint64_t pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    // The command name, in parentheses, may hold anything; fields are counted from behind it.
    const auto name_end = text.rfind(')');
    if (!file.good() && text.empty()) return Status::from_errno(ESRCH, fmt::format("read /proc/{}/stat", pid));
    if (name_end == std::string::npos) return Status(Code::kUnavailable, fmt::format("parse /proc/{}/stat", pid));
    std::istringstream fields(text.substr(name_end + 1));
    std::string state, field;
    std::uint64_t threads = 0, ticks = 0;
    fields >> state;
    for (int number = 4; number <= 19; ++number) fields >> field;
    fields >> threads >> field >> ticks;
    // The state is that of the first thread, which may end before the others.
    if (fields && state == "Z" && threads <= 1) return Status::from_errno(ESRCH, fmt::format("process {} has ended", pid));
    if (!fields) return Status(Code::kUnavailable, fmt::format("parse /proc/{}/stat", pid));
    return ticks;
}

Result<BootId> boot_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string text;
    if (!(file >> text)) return Status(Code::kUnavailable, "read /proc/sys/kernel/random/boot_id");
    BootId id{};
    std::size_t digits = 0;
    for (const char c : text) {
        if (c == '-') continue;
        const auto value = c >= 'a' ? c - 'a' + 10 : c - '0';
        if (digits >= 32 || value < 0 || value > 15)
            return Status(Code::kUnavailable, "parse /proc/sys/kernel/random/boot_id");
        id[digits / 2] |= static_cast<std::byte>(value << (digits % 2 == 0 ? 4 : 0));
        ++digits;
    }
    return id;
}

}   // namespace

Result<ProcessIdentity> identify_this_process() {
    ProcessIdentity process;
    process.pid = static_cast<std::uint64_t>(::getpid());
    auto ticks = start_ticks_of(process.pid);
    if (!ticks) return ticks.status();
    auto boot = boot_id();
    if (!boot) return boot.status();
    process.start_ticks = ticks.value();
    process.boot_id = boot.value();
    return process;
}

bool is_alive(const ProcessIdentity& process) {
    const auto boot = boot_id();
    if (!boot || boot.value() != process.boot_id) return false;
    const auto ticks = start_ticks_of(process.pid);
    return ticks && ticks.value() == process.start_ticks;
}

bool says_it_is_alive(const std::string& directory) { return io::Claim::is_held(directory, std::string(kAliveClaim)); }

bool owner_is_alive(const ProcessIdentity& process, const std::string& directory) { return is_alive(process) || says_it_is_alive(directory); }

bool number_is_taken(const ProcessIdentity& process) noexcept {
    return ::kill(static_cast<pid_t>(process.pid), 0) == 0 || errno != ESRCH;
}

std::optional<ProcessIdentity> owner_of_directory(std::string_view name) {
    std::array<std::uint64_t, 3> numbers{};
    const char* at = name.data();
    const char* const end = at + name.size();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (i > 0 && (at == end || *at++ != '-')) return std::nullopt;
        const auto [behind, error] = std::from_chars(at, end, numbers[i]);
        if (error != std::errc{}) return std::nullopt;
        at = behind;
    }
    const auto boot = boot_id();
    if (at != end || !boot) return std::nullopt;
    return ProcessIdentity{numbers[0], numbers[1], boot.value()};
}

std::string to_text(const BootId& boot_id) {
    std::string text;
    for (std::size_t i = 0; i < boot_id.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += fmt::format("{:02x}", static_cast<unsigned>(boot_id[i]));
    }
    return text;
}

}   // namespace forebay::log
