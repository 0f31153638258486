// Reading ledgers, as `forebay status` does: of living processes and of those that left one behind.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/posix_file.h"
#include "log/ledger.h"
#include "log/process.h"
#include "log/scan.h"

namespace forebay::log {

namespace {

constexpr std::array<std::string_view, kReasonCount> kReasonNames{
    "disabled",  "driver",     "mpi",          "subfiling",    "swmr",        "under_connector",
    "read_only", "bad_option", "staging_area", "handle_taken", "not_regular", "second_library",
    "atomicity", "several_nodes",
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

// The files that are open. A writer takes the first free slot, so behind one that was never used there are only
// such: most ledgers need not be read to their end.
Status read_slots(io::File& file, std::size_t count, std::vector<FileCounters>& files) {
    constexpr std::size_t kAtATime = 4;
    for (std::size_t first = 0; first < count; first += kAtATime) {
        std::array<LedgerSlot, kAtATime> some{};
        const std::span slots = std::span(some).first(std::min(kAtATime, count - first));
        FOREBAY_TRY(read_whole(file, sizeof(LedgerHeader) + first * sizeof(LedgerSlot), std::as_writable_bytes(slots)));
        for (const LedgerSlot& slot : slots)
            if (load(slot.in_use) != 0) files.push_back(snapshot(slot));
        if (load(slots.back().in_use) == 0 && load(slots.back().opened_ns) == 0) break;
    }
    return Status::ok();
}

Result<ProcessView> read_ledger(io::Directory& directory, const Result<ProcessIdentity>& self) {
    auto file = directory.open_file("ledger", io::OpenMode::kRead);
    if (!file) return file.status();
    LedgerHeader header{};
    FOREBAY_TRY(read_whole(*file.value(), 0, std::as_writable_bytes(std::span(&header, 1))));
    const std::string& name = file.value()->name();
    if (header.magic.load(std::memory_order_acquire) != kLedgerMagic)
        return Status(Code::kCorrupt, fmt::format("read {}: not a ledger, or not complete yet", name));
    if (header.version != kLedgerVersion)
        return Status(Code::kUnsupported,
                      fmt::format("read {}: ledger of version {}, this program knows version {}", name,
                                  header.version, kLedgerVersion));

    ProcessView view;
    view.directory = directory.name();
    view.pid = header.pid;
    // The id of this boot is taken from this process; only then do process number and start time count.
    view.alive = self && boot_id_of(header) == to_text(self.value().boot_id) &&
                 owner_is_alive({header.pid, header.process_start_ticks, self.value().boot_id}, directory.name());
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

}   // namespace

Status note_write(io::File& file, std::uint64_t time_ns) {
    LedgerHeader header{};
    FOREBAY_TRY(read_whole(file, 0, std::as_writable_bytes(std::span(&header, 1))));
    if (header.magic.load() != kLedgerMagic || header.version != kLedgerVersion)
        return {Code::kCorrupt, fmt::format("{}: no ledger of this version", file.name())};
    return file.write_at(offsetof(LedgerHeader, wrote_ns), std::as_bytes(std::span(&time_ns, 1)));
}

Result<ProcessView> read_ledger(io::Directory& directory) { return read_ledger(directory, identify_this_process()); }

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

// Without a document of nlohmann's, whose end takes memory, and ends the process where there is none.
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
    // A path is bytes, JSON is text: what is not UTF-8 is replaced rather than refused.
    std::string line = "{\"path\":" + nlohmann::json(counters.path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    for (const auto& [name, number] : numbers) line += fmt::format(R"(,"{}":{})", name, number);
    line += ",\"reasons\":[";
    for (std::size_t i = 0, told = 0; i < kReasonCount; ++i)
        if ((counters.aside >> i & 1) != 0) line += fmt::format(R"({}"{}")", told++ > 0 ? "," : "", kReasonNames[i]);
    return line + "]}";
}

void remove_leftovers(io::Directory& area) {
    const Result<std::vector<std::string>> names = area.list();
    const Result<ProcessIdentity> self = identify_this_process();
    if (!names || !self) return;
    for (const std::string& name : names.value()) {
        if (name.empty() || !owner_of_directory(name)) continue;
        auto directory = area.open_directory(name);
        if (!directory) continue;
        const Result<ProcessView> view = read_ledger(*directory.value(), self);
        if (!view || view.value().alive || !view.value().files.empty() || view.value().files_without_slot > 0) continue;
        // Anything else tells of the logs of others, or of what they overwrote: that is recovery's business.
        const auto files = directory.value()->list();
        if (!files || std::any_of(files.value().begin(), files.value().end(), [](const std::string& file) { return file != "log" && file != "ledger" && file != kAliveClaim; })) continue;
        // A ledger is a hint, and may be older than the log: after a loss of power, or if its page could not be written.
        if (auto pool = directory.value()->open_file("log", io::OpenMode::kRead)) {
            const auto logs = scan(*pool.value(), Payloads::kLeft);
            if (!logs || !logs.value().empty()) continue;
        } else if (pool.status().code() != Code::kNotFound) {
            continue;
        }
        // What cannot be removed now is tried again by the next process.
        (void)directory.value()->remove_file("log");
        (void)directory.value()->remove_file("ledger");
        (void)directory.value()->remove_file(std::string(kAliveClaim));
        (void)area.remove_directory(name);
    }
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
    struct stat facts {};
    const std::string root_path = fmt::format("{}/{}", nls, folder);
    if (::lstat(root_path.c_str(), &facts) != 0) return Status::from_errno(errno, "stat " + root_path);
    if (facts.st_uid != ::geteuid())
        return Status(Code::kPermissionDenied,
                      fmt::format("{} belongs to user {}: not read", root_path, facts.st_uid));

    const Result<std::vector<std::string>> names = root.value()->list();
    if (!names) return names.status();
    const Result<ProcessIdentity> self = identify_this_process();
    for (const std::string& name : names.value()) {
        if (name.empty() || !owner_of_directory(name)) continue;
        auto directory = root.value()->open_directory(name);
        Result<ProcessView> view =
            directory ? read_ledger(*directory.value(), self) : Result<ProcessView>(directory.status());
        if (view) {
            scan.processes.push_back(std::move(view).value());
            continue;
        }
        // A process that ended in the meantime took its directory along.
        const std::string path = fmt::format("{}/{}", root_path, name);
        if (view.status().sys_errno() == ENOENT && ::access(path.c_str(), F_OK) != 0) continue;
        scan.skipped.push_back(view.status().message());
    }
    return scan;
}

}   // namespace forebay::log
