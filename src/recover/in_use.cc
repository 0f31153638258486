#include "recover/in_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/path.h"
#include "recover/session.h"

namespace forebay::recover {

namespace {

bool is_same(const Wanted& file, const io::Identity& identity, const std::string& path) {
    return file.identity == io::Identity{} ? io::same_place(file.path, path) : file.identity == identity;
}

}   // namespace

bool has_left(const FoundDirectory& directory, std::span<const Wanted> files) {
    return std::any_of(files.begin(), files.end(), [&](const Wanted& file) {
        return std::any_of(directory.logs.begin(), directory.logs.end(),
                           [&](const log::ScannedLog& log) {
                               return is_same(file, {log.target.device, log.target.inode}, log.target.path);
                           }) ||
               std::any_of(directory.journals.begin(), directory.journals.end(), [&](const FoundJournal& journal) {
                   const undo::UndoHeader& header = journal.view.header;
                   return is_same(file, {header.device, header.inode}, header.path);
               });
    });
}

Result<bool> has_open(const FoundDirectory& directory, const Wanted& file) {
    for (const ledger::FileCounters& counters : directory.open_files)
        if (is_same(file, {counters.device, counters.inode}, counters.path)) return true;
    if (directory.has_ledger && directory.files_without_slot == 0) return false;
    if (directory.directory == nullptr) return directory.refused;
    const auto log = directory.directory->open_file("log", io::OpenMode::kRead);
    if (!log && log.status().code() == Code::kNotFound && directory.has_ledger) return false;
    if (!log) return log.status();
    const auto targets = log::scan_targets(*log.value());
    if (!targets) return targets.status();
    for (const log::OpenPayload& target : targets.value())
        if (is_same(file, {target.device, target.inode}, target.path)) return true;
    if (directory.has_ledger) return false;
    return Status(Code::kUnsupported,
                  fmt::format("process {} is at work, and its ledger cannot be read", directory.process.pid));
}

void tell_of_users(const Inventory& inventory, std::span<const Wanted> files, Report& report) {
    report.living.clear();
    for (const auto& directory : inventory.directories) {
        if (!directory->alive) continue;
        bool any = false;
        Status unknown;
        for (const Wanted& file : files) {
            const auto open = has_open(*directory, file);
            if (!open) unknown = open.status();
            if (!open || !open.value()) continue;
            any = true;
            if (std::any_of(report.files.begin(), report.files.end(), [&](const FileReport& one) {
                    return one.identity == file.identity || io::same_place(one.path, file.path);
                }))
                continue;
            FileReport used;
            used.path = file.path;
            used.identity = file.identity;
            used.directories = {directory->path()};
            used.processes = {directory->process.pid};
            report.files.push_back(refused(std::move(used), Reason::kInUse,
                                           {Code::kUnavailable,
                                            fmt::format("process {} has it open", directory->process.pid)}));
        }
        if (any) report.living.push_back(directory->path());
        else if (!unknown) report.refused.push_back({directory->path(), unknown});
    }
}

}   // namespace forebay::recover
