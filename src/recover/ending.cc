#include "recover/ending.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "io/process_lock.h"
#include "log/scan.h"
#include "recover/process_directory.h"

namespace forebay::recover {

Result<ledger::FileUse> use_of(io::Directory& directory, const io::Identity& identity, std::string_view path) {
    const auto use = ledger::file_use(directory, identity, path);
    if (use || lacks_resources(use.status())) return use;
    const auto log = directory.open_file("log", io::OpenMode::kRead);
    const auto targets = log ? log::scan_targets(*log.value()) : Result<std::vector<log::OpenPayload>>(log.status());
    if (!targets) return lacks_resources(targets.status()) ? targets.status() : use.status();
    const bool logged = std::any_of(targets.value().begin(), targets.value().end(), [&](const auto& target) {
        return io::Identity{target.device, target.inode} == identity || (!path.empty() && target.path == path);
    });
    return logged ? ledger::FileUse::kOpen : ledger::FileUse::kNone;
}

void await_ending(std::span<io::Directory* const> areas, const std::set<io::Identity>& files,
                  io::Directory::Patience patience,
                  const std::function<void(const area::ProcessIdentity& process)>& waiting) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::hours kForEver{24 * 365};
    const auto until = Clock::now() + patience.at_most.value_or(kForEver);
    for (io::Directory* const area : areas) {
        const auto names = area->list();
        if (!names) continue;   // recovery reports why
        for (const std::string& name : names.value()) {
            const auto owner = area::owner_of_directory(name);
            if (!owner || area::sight_of(*owner) != area::Sight::kEnding) continue;
            const auto directory = area->open_directory(name);
            const bool wanted = directory &&
                                (files.empty() || std::any_of(files.begin(), files.end(), [&](const auto& file) {
                                     const auto use = use_of(*directory.value(), file);
                                     return !use || use.value() != ledger::FileUse::kNone;
                                 }));
            if (!wanted) continue;
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
            if (waiting && left.count() > 0) waiting(*owner);
            (void)io::ProcessLock::await_end(directory.value()->name(), std::string(area::kAliveFile), left);
        }
    }
}

}   // namespace forebay::recover
