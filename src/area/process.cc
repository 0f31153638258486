#include "area/process.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <tuple>

#include "base/attempt.h"
#include "base/clock.h"
#include "io/process_lock.h"

namespace forebay::area {

namespace {

// Of a start: the lower bits are the start time, the others tell apart what has number and start time in common.
constexpr int kTicksBits = 40;
constexpr std::uint64_t kTicksMask = (std::uint64_t{1} << kTicksBits) - 1;
constexpr std::uint64_t kImageMask = (std::uint64_t{1} << 23) - 1;   // as a number with a sign it is positive
constexpr std::uint64_t kExiting = 4;   // PF_EXITING (linux/sched.h), which has not changed since 2.6

struct Seen {
    std::uint64_t ticks = 0, flags = 0;
    char state = '?';
    std::uint64_t threads = 0;
};

// Of a process that runs: one that has ended and was not waited for is gone.
Result<Seen> look_at(std::uint64_t pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(file, text, '\0');   // an iterator would throw where the process ends before the read
    // The command name, in parentheses, may hold anything; fields are counted from behind it.
    const auto name_end = text.rfind(')');
    if (!file.good() && text.empty()) return Status::from_errno(ESRCH, fmt::format("read /proc/{}/stat", pid));
    if (name_end == std::string::npos) return Status(Code::kUnavailable, fmt::format("parse /proc/{}/stat", pid));
    std::istringstream fields(text.substr(name_end + 1));
    std::string field;
    Seen seen;
    fields >> seen.state;
    for (int number = 4; number <= 8; ++number) fields >> field;
    fields >> seen.flags;
    for (int number = 10; number <= 19; ++number) fields >> field;
    fields >> seen.threads >> field >> seen.ticks;
    // The state is that of the first thread, which may end before the others.
    if (fields && seen.state == 'Z' && seen.threads <= 1)
        return Status::from_errno(ESRCH, fmt::format("process {} has ended", pid));
    if (!fields) return Status(Code::kUnavailable, fmt::format("parse /proc/{}/stat", pid));
    return seen;
}

// Another one in each image, and in each forked child: a child in a new PID namespace may have the number of its parent
// there.
std::uint64_t number_of_image() {
    static std::atomic<std::uint64_t> known{0};   // the number, and below it of which child; 0: not drawn
    constexpr int kForksBits = 40;
    const std::uint64_t forks = (io::forks_so_far() + 1) & ((std::uint64_t{1} << kForksBits) - 1);
    std::uint64_t there = known.load();
    while ((there & ((std::uint64_t{1} << kForksBits) - 1)) != forks) {
        std::uint64_t drawn = 0;
        if (::getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof drawn))
            drawn = monotonic_ns();
        if (known.compare_exchange_strong(there, (drawn & kImageMask) << kForksBits | forks)) return drawn & kImageMask;
    }
    return there >> kForksBits;
}

Result<BootId> read_boot_id() {
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

// Read once: it stays as long as the process does.
Result<BootId> boot_id() {
    static std::atomic<bool> known{false};
    static std::array<std::atomic<std::byte>, std::tuple_size_v<BootId>> kept{};
    BootId id{};
    if (known.load(std::memory_order_acquire)) {
        std::transform(kept.begin(), kept.end(), id.begin(), [](const auto& part) { return part.load(); });
        return id;
    }
    auto read = read_boot_id();
    if (!read) return read;
    std::copy(read.value().begin(), read.value().end(), kept.begin());
    known.store(true, std::memory_order_release);
    return read;
}

// Of this process. Read once, and once more in each forked child.
Result<std::uint64_t> own_start_ticks(std::uint64_t pid) {
    static std::atomic<std::uint64_t> known{0};   // the forks so far plus one; 0: not read
    static std::atomic<std::uint64_t> kept{0};
    const std::uint64_t forks = io::forks_so_far() + 1;
    if (known.load(std::memory_order_acquire) == forks) return kept.load();
    const auto seen = look_at(pid);
    if (!seen) return seen.status();
    kept.store(seen.value().ticks);
    known.store(forks, std::memory_order_release);
    return seen.value().ticks;
}

}   // namespace

Result<ProcessIdentity> identify_this_process() {
    ProcessIdentity process;
    process.pid = static_cast<std::uint64_t>(::getpid());
    const auto ticks = own_start_ticks(process.pid);
    if (!ticks) return ticks.status();
    auto boot = boot_id();
    if (!boot) return boot.status();
    process.start_ticks = (ticks.value() & kTicksMask) | number_of_image() << kTicksBits;
    process.boot_id = boot.value();
    return process;
}

std::uint64_t age_of_this_process_ns() noexcept {
    std::uint64_t began_ns = 0;
    const Status known = attempt([&] {
        const auto ticks = own_start_ticks(static_cast<std::uint64_t>(::getpid()));
        const long per_second = ::sysconf(_SC_CLK_TCK);
        if (!ticks) return ticks.status();
        if (per_second <= 0) return Status(Code::kUnavailable, "the length of a tick is not known");
        began_ns = ticks.value() * (1'000'000'000 / static_cast<std::uint64_t>(per_second));
        return Status::ok();
    });
    const std::uint64_t now_ns = boottime_ns();
    return known && began_ns < now_ns ? now_ns - began_ns : 0;
}

namespace {

std::optional<Seen> see(const ProcessIdentity& process) {
    const auto boot = boot_id();
    if (!boot || boot.value() != process.boot_id) return std::nullopt;
    const auto seen = look_at(process.pid);
    if (!seen || (seen.value().ticks & kTicksMask) != (process.start_ticks & kTicksMask)) return std::nullopt;
    return seen.value();
}

Life life_of(io::Holder holder) noexcept {
    switch (holder) {
        case io::Holder::kSomebody: return Life::kLives;
        case io::Holder::kNobody: return Life::kEnded;
        case io::Holder::kUntold: break;
    }
    return Life::kUntold;
}

}   // namespace

bool is_seen_running(const ProcessIdentity& process) { return see(process).has_value(); }

bool is_seen_staying(const ProcessIdentity& process) {
    const auto seen = see(process);
    return seen && seen->state != 'Z' && seen->state != 'X' && (seen->flags & kExiting) == 0;
}

Life life_in(io::Directory& directory) {
    const auto holder = directory.holder_of(std::string(kAliveFile));
    return holder ? life_of(holder.value()) : Life::kUntold;
}

Life life_at(const std::string& directory) noexcept {
    static const std::string name(kAliveFile);   // short: no memory
    return life_of(io::ProcessLock::holder_at(directory, name));
}

bool owner_is_alive(const ProcessIdentity& process, io::Directory& directory, const IsSeenRunning& is_seen) {
    const Life life = life_in(directory);
    return life == Life::kLives || (life == Life::kUntold && is_seen(process));
}

bool owner_is_alive(const ProcessIdentity& process, const std::string& directory) {
    const Life life = life_at(directory);
    return life == Life::kLives || (life == Life::kUntold && is_seen_running(process));
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

}   // namespace forebay::area
