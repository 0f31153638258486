#include "cli/file_view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ledger/drain_state.h"

namespace forebay::cli {

namespace {

using Identity = std::pair<std::uint64_t, std::uint64_t>;

// Ledgers without an identity distinguish files by path.
using Key = std::pair<Identity, std::string>;
Key key_of(std::uint64_t device, std::uint64_t inode, const std::string& path) {
    return {{device, inode}, device == 0 && inode == 0 ? path : std::string()};
}

void find_drainers(FileView& file) {
    for (FileMember& member : file.members) {
        for (const ledger::SharedFile& shared : member.process->shared) {
            const bool ours = std::any_of(file.members.begin(), file.members.end(), [&](const FileMember& other) {
                return other.process != member.process &&
                       std::find(shared.pids.begin(), shared.pids.end(), other.process->pid) != shared.pids.end();
            });
            const bool alone = shared.pids == std::vector<std::uint64_t>{member.process->pid};   // alone on its node
            if (!ours && !alone) continue;
            member.drains = true;
            file.pending += shared.unfollowed_bytes;
        }
    }
    if (file.members.size() == 1) file.members.front().drains = true;
}

FileState file_state_of(const FileView& file) {
    const bool alive = std::any_of(file.members.begin(), file.members.end(),
                                   [](const FileMember& member) { return member.process->alive; });
    if (alive) return file.sum.error != 0 && file.outstanding ? FileState::kFailing : FileState::kAtWork;
    const bool told = std::none_of(file.members.begin(), file.members.end(),
                                   [](const FileMember& member) { return member.may_have_more(); });
    return told && !file.outstanding ? FileState::kDrained : FileState::kLeftBehind;
}

}   // namespace

std::string_view state_name(FileState state) noexcept {
    switch (state) {
        case FileState::kAtWork: return "at_work";
        case FileState::kFailing: return "failing";
        case FileState::kLeftBehind: return "left_behind";
        case FileState::kDrained: return "drained";
    }
    return "";
}

double FileView::progress() const noexcept {
    if (sum.staged == 0) return 1;
    return 1 - static_cast<double>(std::min(pending, sum.staged)) / static_cast<double>(sum.staged);
}

std::vector<FileView> files_of(const ledger::LedgerScan& scan) {
    std::map<Key, FileView> files;
    const auto file_at = [&](std::uint64_t device, std::uint64_t inode, const std::string& path) -> FileView& {
        FileView& file = files[key_of(device, inode, path)];
        if (file.path.empty()) file.path = path;
        file.device = device;
        file.inode = inode;
        return file;
    };
    for (const ledger::ProcessView& process : scan.processes) {
        for (const ledger::FileCounters& counters : process.files) {
            FileView& file = file_at(counters.device, counters.inode, counters.path);
            file.members.push_back({&process, &counters});
            add(file.sum, counters);
        }
        for (const ledger::LoggedFile& logged : process.logged) {
            FileView& file = file_at(logged.device, logged.inode, logged.path);
            const bool known = std::any_of(file.members.begin(), file.members.end(),
                                           [&](const FileMember& member) { return member.process == &process; });
            if (!known) file.members.push_back({&process});
            for (FileMember& member : file.members) member.logged = member.logged || member.process == &process;
        }
    }
    std::vector<FileView> result;
    for (auto& [key, file] : files) {
        if (std::all_of(file.members.begin(), file.members.end(),
                        [](const FileMember& member) { return is_empty(*member.process); }))
            continue;
        file.pending = file.sum.pending;
        find_drainers(file);
        file.outstanding = file.pending > 0 || ledger::is_outstanding(file.sum);
        file.state = file_state_of(file);
        result.push_back(std::move(file));
    }
    std::sort(result.begin(), result.end(),
              [](const FileView& one, const FileView& other) { return one.path < other.path; });
    return result;
}

bool is_empty(const ledger::ProcessView& process) noexcept {
    return !process.alive && process.logged.empty() &&
           std::none_of(process.files.begin(), process.files.end(),
                        [](const ledger::FileCounters& file) { return ledger::is_outstanding(file); });
}

void add(ledger::FileCounters& sum, const ledger::FileCounters& from) {
    const auto earlier = [](std::uint64_t one, std::uint64_t other) {
        return one == 0 ? other : other == 0 ? one : std::min(one, other);
    };
    sum.opened_ns = earlier(sum.opened_ns, from.opened_ns);
    sum.oldest_ns = earlier(sum.oldest_ns, from.oldest_ns);
    if (sum.error == 0) sum.error = from.error;
    sum.requests += from.requests;
    sum.staged += from.staged;
    sum.drained += from.drained;
    sum.superseded += from.superseded;
    sum.through += from.through;
    sum.pending += from.pending;
    sum.held += from.held;
    sum.commits += from.commits;
    sum.target_writes += from.target_writes;
    sum.drain_ns += from.drain_ns;
    sum.stage_ns += from.stage_ns;
    sum.stall_ns += from.stall_ns;
    sum.close_ns += from.close_ns;
    sum.guarantee_given_up += from.guarantee_given_up;
    sum.merged += from.merged;
    sum.stolen += from.stolen;
    sum.syncs += from.syncs;
    sum.aside |= from.aside;
}

}   // namespace forebay::cli
