#include "cli/batch_job.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

namespace forebay::cli {

namespace {

constexpr std::string_view kVariable = "SLURM_JOB_ID";

std::optional<std::string> contents_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (file.bad()) return std::nullopt;
    return text;
}

// Returns the variable's value from the text of /proc/PID/environ, or nullopt if it is not set.
std::optional<std::string> job_in_environment(std::string_view text) {
    while (!text.empty()) {
        const std::string_view entry = text.substr(0, text.find('\0'));
        if (entry.starts_with(kVariable) && entry.substr(kVariable.size()).starts_with('='))
            return std::string(entry.substr(kVariable.size() + 1));
        text.remove_prefix(entry.size() + (entry.size() < text.size() ? 1 : 0));
    }
    return std::nullopt;
}

// Slurm names its control groups `…/job_17/step_0/…`.
bool names_job(const std::string& groups, const std::string& job) {
    const std::string folder = fmt::format("/job_{}", job);
    for (std::size_t at = groups.find(folder); at != std::string::npos; at = groups.find(folder, at + 1)) {
        const std::size_t end = at + folder.size();
        if (end == groups.size() || groups[end] == '/' || groups[end] == '\n') return true;
    }
    return false;
}

}   // namespace

std::string own_job() {
    const char* const job = std::getenv(kVariable.data());
    return job != nullptr ? job : "";
}

bool belongs_to_job(const area::ProcessIdentity& process, const std::string& job) {
    if (!area::is_seen_running(process)) return true;   // the number may belong to another process here
    const auto environment = contents_of(fmt::format("/proc/{}/environ", process.pid));
    if (!environment) return true;
    if (const auto found = job_in_environment(*environment)) return *found == job;
    const auto groups = contents_of(fmt::format("/proc/{}/cgroup", process.pid));
    return groups && names_job(*groups, job);
}

}   // namespace forebay::cli
