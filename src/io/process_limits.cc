#include "io/process_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace forebay::io {

namespace {

// Version 1 expresses "no limit" as the largest multiple of a page.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

void lower(std::optional<std::uint64_t>& least, std::uint64_t bytes) noexcept {
    least = std::min(least.value_or(bytes), bytes);
}

// "max" and any other text that is no number mean no limit.
void lower_by_file(std::optional<std::uint64_t>& least, const std::string& path) {
    std::string text;
    std::uint64_t bytes = 0;
    if (!(std::ifstream(path) >> text)) return;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (error == std::errc{} && end == text.data() + text.size() && bytes < kNoLimit) lower(least, bytes);
}

// Applies the limits of a group and of all groups above it. An unreadable group has no limit, like the machine's own
// group. In a container the path may be the one outside; the mount then shows the container's group as its root.
void lower_by_group(std::optional<std::uint64_t>& least, const std::string& root, std::string group,
                    std::initializer_list<const char*> names) {
    for (;;) {
        for (const char* name : names) lower_by_file(least, root + group + "/" + name);
        if (group.empty()) return;
        group.resize(group.rfind('/'));
    }
}

bool names_memory(std::string_view controllers) {
    for (std::size_t begin = 0; begin <= controllers.size();) {
        const std::size_t end = std::min(controllers.find(',', begin), controllers.size());
        if (controllers.substr(begin, end - begin) == "memory") return true;
        begin = end + 1;
    }
    return false;
}

}   // namespace

std::optional<std::uint64_t> memory_limit_bytes() { return memory_limit_bytes("/proc/self", "/sys/fs/cgroup"); }

std::uint64_t usable_memory_bytes() {
    const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
    const std::uint64_t all = pages > 0 && page > 0
                                  ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                                  : 0;
    return std::min(all, memory_limit_bytes().value_or(all));
}

// Source: cgroups(7); Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
std::optional<std::uint64_t> memory_limit_bytes(const std::string& proc, const std::string& cgroups) {
    std::optional<std::uint64_t> least;
    std::ifstream groups(proc + "/cgroup");
    for (std::string line; std::getline(groups, line);) {
        const std::size_t first = line.find(':'),
                          second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
        std::string group = line.substr(second + 1);
        if (group.empty() || group.front() != '/') continue;
        if (group == "/") group.clear();
        if (controllers.empty()) lower_by_group(least, cgroups, group, {"memory.max", "memory.high"});
        else if (names_memory(controllers))
            lower_by_group(least, cgroups + "/memory", group, {"memory.limit_in_bytes"});
    }
    return least;
}

std::uint64_t descriptors_max() noexcept {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::uint64_t file_size_limit() noexcept {
    rlimit limit{};
    return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

std::optional<std::uint64_t> mappable_bytes_left() {
    rlimit mapped{}, data{};
    if (::getrlimit(RLIMIT_AS, &mapped) != 0) mapped.rlim_cur = RLIM_INFINITY;
    if (::getrlimit(RLIMIT_DATA, &data) != 0) data.rlim_cur = RLIM_INFINITY;
    if (mapped.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY) return std::nullopt;
    // In pages: size, resident, shared, text, 0, data (proc(5)).
    std::uint64_t size = 0, skipped = 0, data_pages = 0;
    std::ifstream("/proc/self/statm") >> size >> skipped >> skipped >> skipped >> skipped >> data_pages;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    std::optional<std::uint64_t> left;
    const auto lower_to_rest = [&](rlim_t limit, std::uint64_t used) {
        if (limit != RLIM_INFINITY) lower(left, limit - std::min<std::uint64_t>(limit, used));
    };
    lower_to_rest(mapped.rlim_cur, size * page);
    lower_to_rest(data.rlim_cur, data_pages * page);
    return left;
}

}   // namespace forebay::io
