#include "area/told.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <string>

#include "area/registry.h"
#include "base/checksum.h"
#include "io/file_system.h"
#include "io/posix_file.h"

namespace forebay::area {

namespace {

// Returns null if there is no folder that only this user may write.
std::unique_ptr<io::Directory> open_told_folder(const std::string& place) {
    const auto kind = io::file_system_of(place);
    if (!kind || kind.value().network) return nullptr;
    auto parent = io::open_posix_directory(place);
    if (!parent) return nullptr;
    const std::string name = fmt::format("forebay-told-{}", ::geteuid());
    if (const auto made = parent.value()->create_directory(name); !made && made.status().code() != Code::kAlreadyExists)
        return nullptr;
    const auto facts = parent.value()->facts(name);
    if (!facts || facts.value().kind != io::Facts::Kind::kDirectory || facts.value().owner != ::geteuid() ||
        (facts.value().mode & io::Facts::kRightsOfOthers) != 0)
        return nullptr;
    auto folder = parent.value()->open_directory(name);
    return folder ? std::move(folder).value() : nullptr;
}

// Returns the launcher in a file's name, "<hash>-<pid>-<start>".
std::optional<ProcessIdentity> job_in(std::string_view name, const BootId& boot) {
    ProcessIdentity job;
    job.boot_id = boot;
    const std::size_t first = name.find('-');
    if (first == std::string_view::npos) return std::nullopt;
    const char* const end = name.data() + name.size();
    const auto pid = std::from_chars(name.data() + first + 1, end, job.pid);
    if (pid.ec != std::errc{} || pid.ptr == end || *pid.ptr != '-') return std::nullopt;
    const auto start = std::from_chars(pid.ptr + 1, end, job.start_ticks);
    return start.ec == std::errc{} && start.ptr == end ? std::optional(job) : std::nullopt;
}

void remove_ended_jobs(io::Directory& folder, const BootId& boot) {
    const auto names = folder.list();
    if (!names) return;
    for (const std::string& name : names.value())
        if (const auto job = job_in(name, boot); job && !is_seen_running(*job)) (void)folder.remove_file(name);
}

bool make_first(const Options& options, std::string_view message, const std::optional<ProcessIdentity>& job) {
    const std::string hash = fmt::format("{:016x}", XXH3_64bits(message.data(), message.size()));
    const std::string name = job ? fmt::format("{}-{}-{}", hash, job->pid, job->start_ticks) : hash;
    for (const std::string& place : registry_places(options)) {
        const auto folder = open_told_folder(place);
        if (folder == nullptr) continue;
        const auto made = folder->open_file(name, io::OpenMode::kCreateNew);
        if (!made && made.status().code() != Code::kAlreadyExists) continue;
        if (made && job) remove_ended_jobs(*folder, job->boot_id);
        return static_cast<bool>(made);
    }
    return true;
}

}   // namespace

bool is_first_to_tell(const Options& options, std::string_view message,
                      const std::optional<ProcessIdentity>& job) noexcept {
    try {
        return make_first(options, message, job);
    } catch (...) {   // without memory the notice is printed again
        return true;
    }
}

}   // namespace forebay::area
