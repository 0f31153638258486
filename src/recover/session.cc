#include "recover/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace forebay::recover {

FileReport introduce(const Session& session) {
    FileReport report;
    report.path = report.logged_path = session.path;
    report.identity = session.identity;
    for (const FoundLog& found : session.logs) {
        report.directories.push_back(found.directory->path());
        report.processes.push_back(found.log->process.pid);
        for (const ledger::FileCounters& counters : found.directory->open_files)
            if (counters.device == session.logged.device && counters.inode == session.logged.inode)
                report.uncommitted_bytes += counters.guarantee_given_up;
    }
    return report;
}

bool is_complete(const Session& session) noexcept {
    // The undo journals went first, when there was nothing left to undo.
    if (session.sharing.kind == log::Sharing::Kind::kConsistentNodes) return true;
    if (session.durable_group && session.unwritten) return true;
    if (session.board == nullptr) return false;
    const group::BoardView& board = session.board->board;
    return !board.begun || board.frontier.lower() == log::Frontier::kNothing;
}

bool is_closed(const TeamSession& team) {
    return std::any_of(team.members.begin(), team.members.end(), [](const TeamSession::Member& member) {
        return TeamSession::journal_of(member).view.state.closed;
    });
}

Reason reason_of(const Status& status) noexcept {
    switch (status.code()) {
        case Code::kNotFound: return Reason::kMissing;
        case Code::kPermissionDenied: return Reason::kReadOnly;
        case Code::kNoSpace: return Reason::kNoSpace;
        case Code::kUnavailable: return Reason::kInUse;
        default: return Reason::kSystem;
    }
}

Reason reason_of_failed_write(const Status& status) noexcept {
    return status.code() == Code::kUnsupported && status.sys_errno() == 0 ? Reason::kChanged : reason_of(status);
}

Status note_life(FoundDirectory& directory) {
    auto ledger = directory.directory->open_file("ledger", io::OpenMode::kReadWrite);
    if (!ledger) return ledger.status().code() == Code::kNotFound ? Status::ok() : ledger.status();
    const Status noted = ledger::note_write(*ledger.value(), realtime_ns());
    return noted.code() == Code::kCorrupt ? Status::ok() : noted;   // a corrupt ledger tells nothing
}

FileReport refused(FileReport report, Reason reason, Status status) {
    report.outcome = Outcome::kRefused;
    report.dropped_records = report.dropped_bytes = 0;   // the log still has them
    report.reason = reason;
    report.status = std::move(status);
    return report;
}

bool hides_a_commit(const log::ScannedLog& log, std::uint64_t commit_sequence) noexcept {
    return log.lost_after && (commit_sequence == 0 || *log.lost_after < commit_sequence);
}

Result<std::vector<std::unique_ptr<io::Lock>>> lock_all(std::span<io::Directory* const> areas,
                                                        io::Directory::Patience patience) {
    // All processes lock in one order, so none wait for each other.
    std::vector<io::Directory*> ordered(areas.begin(), areas.end());
    std::sort(ordered.begin(), ordered.end(),
              [](const io::Directory* one, const io::Directory* other) { return one->name() < other->name(); });
    std::vector<std::unique_ptr<io::Lock>> locks;
    for (io::Directory* const area : ordered) {
        auto lock = area->lock(patience);
        if (!lock && io::has_holder(lock.status()))
            return Status(Code::kUnavailable, fmt::format("another recovery is at work in {}", area->name()),
                          lock.status().sys_errno(), true);
        if (!lock) return lock.status();
        locks.push_back(std::move(lock).value());
    }
    return locks;
}

}   // namespace forebay::recover
