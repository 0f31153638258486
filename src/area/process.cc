#include "area/process.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <system_error>
#include <tuple>

#include "base/attempt.h"
#include "base/clock.h"
#include "io/forked_process.h"
#include "io/process_lock.h"
#include "io/shown_name.h"

namespace forebay::area {

namespace {

// The lower bits of a start are the start time. The others distinguish processes with equal number and start time.
constexpr int kTicksBits = 40;
constexpr std::uint64_t kTicksMask = (std::uint64_t{1} << kTicksBits) - 1;
// 23 bits: the start stays positive as a signed number.
constexpr std::uint64_t kImageMask = (std::uint64_t{1} << 23) - 1;
// PF_EXITING, PF_DUMPCORE and PF_SIGNALED (linux/sched.h), unchanged since 2.6: the thread is ending.
constexpr std::uint64_t kEndingFlags = 0x4 | 0x200 | 0x400;
constexpr std::uint64_t kKillPending = std::uint64_t{1} << (SIGKILL - 1);

struct Seen {
    std::uint64_t parent = 0, ticks = 0, flags = 0;
    char state = '?';
    std::uint64_t threads = 0, pending = 0;   // pending: signals that the thread has not taken yet

    // The kernel sends SIGKILL to each other thread of an ending process.
    [[nodiscard]] bool ends() const noexcept {
        return state == 'Z' || state == 'X' || (flags & kEndingFlags) != 0 || (pending & kKillPending) != 0;
    }
};

Result<Seen> read_stat(const std::string& path) {
    std::ifstream file(path);
    std::string text;
    std::getline(file, text, '\0');   // an iterator would throw if the process ended before the read
    // The command name, in parentheses, may hold any bytes, so the fields are counted from its end.
    const auto name_end = text.rfind(')');
    if (!file.good() && text.empty()) return Status::from_errno(ESRCH, "read " + path);
    if (name_end == std::string::npos) return Status(Code::kUnavailable, "parse " + path);
    std::istringstream fields(text.substr(name_end + 1));
    std::string field;
    Seen seen;
    fields >> seen.state >> seen.parent;
    for (int number = 5; number <= 8; ++number) fields >> field;
    fields >> seen.flags;
    for (int number = 10; number <= 19; ++number) fields >> field;
    fields >> seen.threads >> field >> seen.ticks;
    for (int number = 23; number <= 30; ++number) fields >> field;
    fields >> seen.pending;
    if (!fields) return Status(Code::kUnavailable, "parse " + path);
    return seen;
}

// Returns the state of a running process. A zombie does not count as running.
Result<Seen> look_at(std::uint64_t pid) {
    auto seen = read_stat(fmt::format("/proc/{}/stat", pid));
    // The state is that of the first thread, which may end before the others.
    if (seen && seen.value().state == 'Z' && seen.value().threads <= 1)
        return Status::from_errno(ESRCH, fmt::format("process {} has ended", pid));
    return seen;
}

// Returns a number that differs in each image and forked child, also for equal numbers in two PID namespaces.
std::uint64_t number_of_image() {
    static std::atomic<std::uint64_t> known{0};   // the number, and in the lower bits the count of forks; 0: not drawn
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

// Reads it once: it lasts as long as the process.
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

// Returns the start of this process. Reads it once, and again in each forked child.
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

Sight sight_of(const ProcessIdentity& process) {
    if (!see(process)) return Sight::kNone;
    std::error_code error;
    bool any = false;
    std::filesystem::directory_iterator threads(fmt::format("/proc/{}/task", process.pid), error);
    for (; !error && threads != std::filesystem::directory_iterator(); threads.increment(error)) {
        const auto thread = read_stat(threads->path().string() + "/stat");
        if (!thread && thread.status().sys_errno() == ESRCH) continue;   // the thread has ended in the meantime
        if (!thread) return Sight::kNone;
        if (!thread.value().ends()) return Sight::kStaying;
        any = true;
    }
    return any ? Sight::kEnding : Sight::kNone;
}

Life life_in(io::Directory& directory) {
    const auto holder = directory.holder_of(std::string(kAliveFile));
    if (holder) return life_of(holder.value());
    return io::ProcessLock::is_no_lock(holder.status().sys_errno()) ? Life::kUntold : Life::kUnseen;
}

Life life_at(const std::string& directory) noexcept {
    static const std::string name(kAliveFile);   // short enough to need no memory
    io::Holder holder = io::Holder::kUntold;
    return io::ProcessLock::look_at(directory, name, holder) == 0 ? life_of(holder) : Life::kUnseen;
}

namespace {

bool is_alive(Life life, const ProcessIdentity& process, const IsSeenRunning& is_seen) {
    return life == Life::kLives || life == Life::kUnseen || (life == Life::kUntold && is_seen(process));
}

}   // namespace

bool owner_is_alive(const ProcessIdentity& process, io::Directory& directory, const IsSeenRunning& is_seen) {
    return is_alive(life_in(directory), process, is_seen);
}

bool owner_is_alive(const ProcessIdentity& process, const std::string& directory) {
    return is_alive(life_at(directory), process, is_seen_running);
}

namespace {

// Parses "<number>-<number>…", and returns the first two numbers.
std::optional<ProcessIdentity> process_of_numbers(std::string_view name, std::size_t count) {
    std::array<std::uint64_t, 3> numbers{};
    const char* at = name.data();
    const char* const end = at + name.size();
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0 && (at == end || *at++ != '-')) return std::nullopt;
        const auto [behind, error] = std::from_chars(at, end, numbers[i]);
        if (error != std::errc{}) return std::nullopt;
        at = behind;
    }
    const auto boot = boot_id();
    if (at != end || !boot) return std::nullopt;
    return ProcessIdentity{numbers[0], numbers[1], boot.value()};
}

constexpr const char* kShownName = "forebay-parent";

// Python starts a worker of the method "spawn" with the first text, also in frozen programs. It starts the server of
// the method "forkserver" with code that names the second.
constexpr std::string_view kSpawnedWorker = "--multiprocessing-fork", kForkServer = "multiprocessing.forkserver";

bool is_started_with(const std::string& process, std::string_view text) {
    std::ifstream file("/proc/" + process + "/cmdline");
    for (std::string word; std::getline(file, word, '\0');)
        if (word.find(text) != std::string::npos) return true;
    return false;
}

// After a parent's end its children belong to an init or a container runtime, so the program counts.
bool runs_the_same_program(std::uint64_t pid) {
    std::error_code failed;
    const auto own = std::filesystem::read_symlink("/proc/self/exe", failed);
    if (failed) return false;
    const auto other = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), failed);
    return !failed && own == other;
}

std::optional<ProcessIdentity> find_parent_of_worker() {
    if (!io::is_forked() && !is_started_with("self", kSpawnedWorker)) return std::nullopt;
    auto pid = static_cast<std::uint64_t>(::getppid());
    auto seen = look_at(pid);
    if (seen && is_started_with(std::to_string(pid), kForkServer)) seen = look_at(pid = seen.value().parent);
    const auto boot = boot_id();
    if (!seen || !boot || !runs_the_same_program(pid) || !io::shows_name(pid, kShownName)) return std::nullopt;
    return ProcessIdentity{pid, seen.value().ticks, boot.value()};
}

}   // namespace

std::optional<ProcessIdentity> owner_of_directory(std::string_view name) { return process_of_numbers(name, 3); }
std::optional<ProcessIdentity> process_of_name(std::string_view name) { return process_of_numbers(name, 2); }
std::string process_name(const ProcessIdentity& process) {
    return fmt::format("{}-{}", process.pid, process.start_ticks & kTicksMask);
}

// The mapping stays. A child has a mapping of its own.
void show_as_parent() noexcept {
    static std::atomic<std::uint64_t> shown{0};   // the forks so far plus one
    const std::uint64_t forks = io::forks_so_far() + 1;
    if (shown.exchange(forks) != forks) (void)io::show_name(kShownName);
}

// The result still names a parent that has ended; that parent is not running then.
std::optional<ProcessIdentity> parent_of_worker() {
    struct Known {
        std::uint64_t forks = 0;
        std::optional<ProcessIdentity> parent;
    };
    static std::mutex mutex;
    static Known known;
    const std::uint64_t forks = io::forks_so_far() + 1;
    const std::unique_lock lock(mutex, std::try_to_lock);   // a thread of the parent may have held it during the fork
    if (!lock) return find_parent_of_worker();
    if (known.forks != forks) known = {forks, find_parent_of_worker()};
    return known.parent;
}

bool is_this_process(const ProcessIdentity& process) {
    return process.pid == static_cast<std::uint64_t>(::getpid()) && see(process).has_value();
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
