#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "area/process.h"
#include "area/staging_area.h"
#include "group/board_format.h"
#include "io/claim.h"
#include "io/posix_file.h"
#include "ledger/ledger.h"
#include "log/scan.h"
#include "undo/undo_format.h"

namespace forebay::ledger {

namespace {

constexpr std::array<std::string_view, kReasonCount> kReasonNames{
    "disabled",  "driver",        "mpi",           "subfiling",    "swmr",        "under_connector",
    "read_only", "bad_option",    "staging_area",  "handle_taken", "not_regular", "second_library",
    "atomicity", "several_nodes", "address_given", "forwarded",    "server",      "paused",
};

std::uint64_t load(const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); }

std::string_view boot_id_of(const LedgerHeader& header) {
    return {header.boot_id, ::strnlen(header.boot_id, sizeof header.boot_id)};
}

Status short_of(const std::string& name) {
    return {Code::kCorrupt, fmt::format("read {}: shorter than a ledger", name)};
}

Status read_whole(io::File& file, std::uint64_t offset, io::MutableBytes into) {
    const Result<std::size_t> got = file.read_at(offset, into);
    if (!got) return got.status();
    return got.value() == into.size() ? Status::ok() : short_of(file.name());
}

// Returns true if another process drains this directory (close=linger), or if that is unknown.
bool is_taken_over(const std::string& directory) {
    const std::size_t slash = directory.rfind('/');
    if (slash == std::string::npos) return false;
    const auto held = io::Claim::is_held(fmt::format("{}/{}", directory.substr(0, slash), area::kClosingFolder),
                                         directory.substr(slash + 1));
    return !held || held.value();
}

// Visits the slots by number until `visit`, a Result<bool>, returns false. Each read doubles the slots read so
// far: a process may have many files open, and each open in another process asks for all of them. A writer takes the
// first free slot, so a slot that was never used ends the search.
template <class Visit>
Status visit_slots(io::File& file, std::size_t count, Visit&& visit) {
    constexpr std::size_t kFirst = 4;
    std::vector<LedgerSlot> slots;
    for (std::size_t first = 0; first < count; first += slots.size()) {
        slots = std::vector<LedgerSlot>(std::min(std::max(first, kFirst), count - first));
        FOREBAY_TRY(read_whole(file, sizeof(LedgerHeader) + first * sizeof(LedgerSlot),
                               std::as_writable_bytes(std::span(slots))));
        for (std::size_t i = 0; i < slots.size(); ++i) {
            const Result<bool> on = visit(first + i, slots[i]);
            FOREBAY_TRY(on.status());
            if (!on.value()) return Status::ok();
        }
        if (load(slots.back().in_use) == 0 && load(slots.back().opened_ns) == 0) break;
    }
    return Status::ok();
}

Status read_slots(io::File& file, std::size_t count, std::vector<FileCounters>& files) {
    return visit_slots(file, count, [&](std::size_t, const LedgerSlot& slot) -> Result<bool> {
        if (load(slot.in_use) != 0) files.push_back(snapshot(slot));
        return true;
    });
}

Result<ProcessView> read_ledger(io::Directory& directory, const Result<area::ProcessIdentity>& self) {
    auto file = directory.open_file("ledger", io::OpenMode::kRead);
    if (!file) return file.status();
    LedgerHeader header{};
    FOREBAY_TRY(read_whole(*file.value(), 0, std::as_writable_bytes(std::span(&header, 1))));
    const std::string& name = file.value()->name();
    if (header.magic.load(std::memory_order_acquire) != kLedgerMagic)
        return Status(Code::kCorrupt, fmt::format("read {}: not a ledger, or not complete yet", name));
    if (header.version != kLedgerVersion)
        return Status(Code::kUnsupported, fmt::format("read {}: ledger of version {}, this program knows version {}",
                                                      name, header.version, kLedgerVersion));

    ProcessView view;
    view.directory = directory.name();
    view.pid = header.pid;
    view.restarted = !self || boot_id_of(header) != area::to_text(self.value().boot_id);
    // Without a lock, number and start time decide, in this boot only.
    const area::Life life = area::life_in(directory);
    view.alive = life == area::Life::kLives || life == area::Life::kUnseen ||
                 (life == area::Life::kUntold && self && boot_id_of(header) == area::to_text(self.value().boot_id) &&
                  area::is_seen_running({header.pid, header.process_start_ticks, self.value().boot_id})) ||
                 is_taken_over(directory.name());
    view.size = header.size;
    view.segment = header.segment;
    view.segments_allocated = load(header.segments_allocated);
    view.segments_free = load(header.segments_free);
    view.files_opened = load(header.files_opened);
    view.files_staged = load(header.files_staged);
    view.files_without_slot = load(header.files_without_slot);
    view.wrote_ns = load(header.wrote_ns);
    for (std::size_t i = 0; i < kReasonCount; ++i) view.aside[i] = load(header.aside[i]);
    FOREBAY_TRY(read_slots(*file.value(), std::min<std::uint64_t>(header.slots, kLedgerSlots), view.files));
    return view;
}

// An unreadable board belongs to a file that is being opened or closed, so it is left out.
std::vector<SharedFile> look_at_boards(io::Directory& directory) {
    std::vector<SharedFile> all;
    const auto names = directory.list();
    if (!names) return all;
    for (const std::string& name : names.value()) {
        if (!group::log_of_board(name)) continue;
        const auto file = directory.open_file(name, io::OpenMode::kRead);
        const auto board = file ? group::read_board(*file.value()) : Result<group::BoardView>(file.status());
        if (!board) continue;
        SharedFile shared;
        for (const area::ProcessIdentity& process : board.value().participants) shared.pids.push_back(process.pid);
        shared.unfollowed_bytes = board.value().unfollowed_bytes;
        all.push_back(std::move(shared));
    }
    return all;
}

Status look_at_logs(io::Directory& directory, ProcessView& view) {
    const auto note = [&](const std::string& path, std::uint64_t device, std::uint64_t inode) {
        const bool known = std::any_of(view.logged.begin(), view.logged.end(), [&](const LoggedFile& one) {
            return one.device == device && one.inode == inode;
        });
        if (!known) view.logged.push_back({path, device, inode});
    };
    if (const auto log = directory.open_file("log", io::OpenMode::kRead)) {
        if (view.alive) {
            const auto targets = log::scan_targets(*log.value());
            if (!targets) return targets.status();
            for (const log::OpenPayload& target : targets.value()) note(target.path, target.device, target.inode);
        } else {
            const auto logs = log::scan(*log.value());
            if (!logs) return logs.status();
            for (const log::ScannedLog& each : logs.value()) {
                if (!each.target.path.empty()) note(each.target.path, each.target.device, each.target.inode);
                else if (!each.damage.empty()) return each.damage.front();   // it may be any file's
            }
        }
    } else if (log.status().code() != Code::kNotFound) {
        return log.status();
    }
    const auto names = directory.list();
    if (!names) return names.status();
    for (const std::string& name : names.value()) {
        if (!undo::log_of_undo(name)) continue;
        const auto journal = directory.open_file(name, io::OpenMode::kRead);
        if (journal.status().code() == Code::kNotFound) continue;   // a recovery has just removed it
        if (!journal) return journal.status();
        const auto bytes = journal.value()->size();
        if (bytes && bytes.value() < undo::kUndoFrontBytes) continue;   // no journal yet
        const auto header = undo::read_undo_header(*journal.value());
        if (!header) return header.status();
        note(header.value().path, header.value().device, header.value().inode);
    }
    return Status::ok();
}

}   // namespace

namespace {

Result<bool> has_path(io::File& ledger, std::size_t slot, std::string_view path) {
    const std::uint64_t at = sizeof(LedgerHeader) + slot * sizeof(LedgerSlot);
    std::uint64_t bytes = 0;
    FOREBAY_TRY(read_whole(ledger, at + offsetof(LedgerSlot, path_bytes),
                           std::as_writable_bytes(std::span(&bytes, 1))));
    if (bytes != path.size()) return false;
    std::string found(path.size(), '\0');
    FOREBAY_TRY(read_whole(ledger, at + offsetof(LedgerSlot, path), std::as_writable_bytes(std::span(found))));
    return found == path;
}

}   // namespace

Result<FileUse> file_use(io::Directory& directory, const io::Identity& identity, std::string_view path) {
    const auto file = directory.open_file("ledger", io::OpenMode::kRead);
    if (!file) return file.status().code() == Code::kNotFound ? Result<FileUse>(FileUse::kNone) : file.status();
    LedgerHeader header{};
    FOREBAY_TRY(read_whole(*file.value(), 0, std::as_writable_bytes(std::span(&header, 1))));
    if (header.magic.load(std::memory_order_acquire) != kLedgerMagic || header.version != kLedgerVersion)
        return Status(Code::kUnsupported, fmt::format("read {}: not a ledger of this version", file.value()->name()));
    std::optional<FileUse> found;
    FOREBAY_TRY(visit_slots(*file.value(), kLedgerSlots,
                            [&](std::size_t number, const LedgerSlot& slot) -> Result<bool> {
                                const std::uint64_t in_use = load(slot.in_use);
                                if (in_use == 0) return true;
                                Result<bool> same = io::Identity{load(slot.device), load(slot.inode)} == identity;
                                if (!same.value() && !path.empty() && path.size() <= kLedgerPathMax)
                                    same = has_path(*file.value(), number, path);
                                if (same && same.value()) found = static_cast<FileUse>(in_use);
                                return same ? Result<bool>(!found) : same;
                            }));
    if (found) return *found;
    if (load(header.files_without_slot) == 0) return FileUse::kNone;
    return Status(Code::kUnavailable, fmt::format("{} has had more files than slots", file.value()->name()));
}

Status note_write(io::File& file, std::uint64_t time_ns) {
    LedgerHeader header{};
    FOREBAY_TRY(read_whole(file, 0, std::as_writable_bytes(std::span(&header, 1))));
    if (header.magic.load() != kLedgerMagic || header.version != kLedgerVersion)
        return {Code::kCorrupt, fmt::format("{}: no ledger of this version", file.name())};
    return file.write_at(offsetof(LedgerHeader, wrote_ns), std::as_bytes(std::span(&time_ns, 1)));
}

Result<ProcessView> read_ledger(io::Directory& directory) {
    return read_ledger(directory, area::identify_this_process());
}

std::string_view reason_name(AsideReason reason) noexcept {
    const auto index = static_cast<std::size_t>(reason);
    return index < kReasonNames.size() ? kReasonNames[index] : "unknown";
}

FileCounters snapshot(const LedgerSlot& slot) {
    FileCounters counters;
    counters.path.assign(slot.path, std::min<std::uint64_t>(load(slot.path_bytes), kLedgerPathMax));
    counters.device = load(slot.device);
    counters.inode = load(slot.inode);
    counters.opened_ns = load(slot.opened_ns);
    counters.requests = load(slot.requests);
    counters.staged = load(slot.staged);
    counters.drained = load(slot.drained);
    counters.superseded = load(slot.superseded);
    counters.through = load(slot.through);
    counters.pending = load(slot.pending);
    counters.held = load(slot.held);
    counters.oldest_ns = load(slot.oldest_ns);
    counters.commits = load(slot.commits);
    counters.target_writes = load(slot.target_writes);
    counters.drain_ns = load(slot.drain_ns);
    counters.stage_ns = load(slot.stage_ns);
    counters.stall_ns = load(slot.stall_ns);
    counters.close_ns = load(slot.close_ns);
    counters.guarantee_given_up = load(slot.guarantee_given_up);
    counters.merged = load(slot.merged);
    counters.stolen = load(slot.stolen);
    counters.syncs = load(slot.syncs);
    counters.error = load(slot.error);
    counters.aside = load(slot.aside);
    return counters;
}

// The destructor of an nlohmann document takes memory, and ends the process without it. So this builds the text itself.
std::string to_json(const FileCounters& counters) {
    const std::pair<const char*, std::uint64_t> numbers[] = {
        {"opened_ns", counters.opened_ns},
        {"requests", counters.requests},
        {"staged", counters.staged},
        {"drained", counters.drained},
        {"superseded", counters.superseded},
        {"through", counters.through},
        {"pending", counters.pending},
        {"held", counters.held},
        {"oldest_ns", counters.oldest_ns},
        {"commits", counters.commits},
        {"target_writes", counters.target_writes},
        {"drain_ns", counters.drain_ns},
        {"stage_ns", counters.stage_ns},
        {"stall_ns", counters.stall_ns},
        {"close_ns", counters.close_ns},
        {"guarantee_given_up", counters.guarantee_given_up},
        {"merged", counters.merged},
        {"stolen", counters.stolen},
        {"syncs", counters.syncs},
        {"error", counters.error},
        {"aside", counters.aside},
    };
    // A path is bytes and JSON is text, so bytes that are not UTF-8 are replaced.
    std::string line = "{\"path\":" +
                       nlohmann::json(counters.path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    for (const auto& [name, number] : numbers) line += fmt::format(R"(,"{}":{})", name, number);
    line += ",\"reasons\":[";
    for (std::size_t i = 0, told = 0; i < kReasonCount; ++i)
        if ((counters.aside >> i & 1) != 0) line += fmt::format(R"({}"{}")", told++ > 0 ? "," : "", kReasonNames[i]);
    return line + "]}";
}

namespace {

void remove_leftover(io::Directory& area, const std::string& name) {
    const Result<area::ProcessIdentity> self = area::identify_this_process();
    auto directory = area.open_directory(name);
    if (!self || !directory) return;
    const Result<ProcessView> view = read_ledger(*directory.value(), self);
    if (!view || view.value().alive || !view.value().files.empty() || view.value().files_without_slot > 0) return;
    // Any other file concerns the logs or the undo journals of others, which recovery handles.
    const auto files = directory.value()->list();
    if (!files || std::any_of(files.value().begin(), files.value().end(), [](const std::string& file) {
            return file != "log" && file != "ledger" && file != area::kAliveFile;
        }))
        return;
    // A ledger is a hint, and may be older than the log: after a power loss, or if its page was not written.
    if (auto pool = directory.value()->open_file("log", io::OpenMode::kRead)) {
        const auto logs = log::scan(*pool.value());
        if (!logs || !logs.value().empty()) return;
    } else if (pool.status().code() != Code::kNotFound) {
        return;
    }
    // The next process retries a failed removal.
    const auto ended = directory.value()->keep_free(std::string(area::kAliveFile));
    if (!ended) return;
    (void)directory.value()->remove_file("log");
    (void)directory.value()->remove_file("ledger");
    (void)directory.value()->remove_file(std::string(area::kAliveFile));
    (void)area.remove_directory(name);
}

}   // namespace

void remove_leftovers(io::Directory& area) {
    const Result<std::vector<std::string>> names = area.list();
    if (!names) return;
    for (const std::string& name : names.value())
        if (area::owner_of_directory(name)) remove_leftover(area, name);
}

LedgerScan scan_ledgers(io::Directory& area) {
    LedgerScan scan;
    const Result<std::vector<std::string>> names = area.list();
    if (!names) {
        scan.skipped.push_back(names.status().message());
        return scan;
    }
    const Result<area::ProcessIdentity> self = area::identify_this_process();
    for (const std::string& name : names.value()) {
        if (name.empty() || !area::owner_of_directory(name)) continue;
        auto directory = area.open_directory(name);
        // Boards come first: the ledger then includes records that the drainer finds in the meantime.
        std::vector<SharedFile> shared;
        if (directory) shared = look_at_boards(*directory.value());
        Result<ProcessView> view = directory ? read_ledger(*directory.value(), self)
                                             : Result<ProcessView>(directory.status());
        if (view) {
            view.value().shared = std::move(shared);
            const bool wanted = !view.value().alive || view.value().files_without_slot > 0;
            if (const Status read = wanted ? look_at_logs(*directory.value(), view.value()) : Status::ok(); !read)
                scan.skipped.push_back(read.message());
            scan.processes.push_back(std::move(view).value());
            continue;
        }
        // A process that ended in the meantime has removed its directory.
        if (view.status().code() == Code::kNotFound && area.facts(name).status().code() == Code::kNotFound) continue;
        scan.skipped.push_back(view.status().message());
    }
    return scan;
}

Result<LedgerScan> scan_ledgers(const std::string& nls) {
    auto area = io::open_posix_directory(nls);
    if (!area) return area.status();
    const std::string folder = fmt::format("forebay-{}", ::geteuid());
    auto root = area.value()->open_directory(folder);
    LedgerScan scan;
    if (!root) {
        if (root.status().sys_errno() == ENOENT) return scan;
        return root.status();
    }
    struct stat facts{};
    const std::string root_path = fmt::format("{}/{}", nls, folder);
    if (::lstat(root_path.c_str(), &facts) != 0) return Status::from_errno(errno, "stat " + root_path);
    if (facts.st_uid != ::geteuid())
        return Status(Code::kPermissionDenied, fmt::format("{} belongs to user {}: not read", root_path, facts.st_uid));

    return scan_ledgers(*root.value());
}

}   // namespace forebay::ledger
