#include "recover/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace forebay::recover {

namespace {

// The system writes a mapped page, or a file's mtime, to the device within 35 s; more under load.
constexpr std::uint64_t kWrittenBackNs = 120'000'000'000;

bool is_retired(const Session& session) noexcept {
    return session.board != nullptr && session.board->board.frontier.lower() == log::Frontier::kNothing;
}

bool has_written(const log::ScannedLog& log) noexcept {
    return !log.records.empty() || log.commit_sequence > 0 || log.unread_bytes > 0 || log.hides_record;
}

}   // namespace

FileReport introduce(const Session& session) {
    FileReport report;
    report.path = report.logged_path = session.path;
    report.identity = session.identity;
    report.restarted = session.restarted;
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
    if (is_retired(session) || (session.durable_group && session.unwritten)) return true;
    if (lacks_proof(session)) return false;
    // The undo journals went first, when there was nothing left to undo.
    return session.sharing.kind == log::Sharing::Kind::kConsistentNodes ||
           (session.board != nullptr && !session.board->board.begun);
}

bool lacks_proof(const Session& session) noexcept {
    // A durable group syncs its board before its first record.
    if (!session.restarted || session.durable_group || is_retired(session)) return false;
    const bool consistent = session.sharing.kind == log::Sharing::Kind::kConsistentNodes;
    const bool unbegun = session.board != nullptr && !session.board->board.begun;
    return (consistent || unbegun) && std::any_of(session.logs.begin(), session.logs.end(),
                                                  [](const FoundLog& found) { return has_written(*found.log); });
}

std::uint64_t last_sign_of_life(const Session& session, const area::BootId& boot_id, std::uint64_t booted_ns) noexcept {
    std::uint64_t last = 0, touched = 0;
    bool signs_lost = false;
    for (const FoundLog& found : session.logs) {
        if (found.log->state) last = std::max(last, found.log->state->begun_ns);
        last = std::max({last, found.directory->wrote_ns, found.log->commit_time_ns});
        for (const log::ScannedRecord& record : found.log->records) last = std::max(last, record.header.time_ns);
        if (!found.log->durable || found.log->process.boot_id == boot_id) continue;
        signs_lost = true;
        touched = std::max(touched, found.directory->log_modified_ns);
    }
    if (!signs_lost) return last;
    // The process may have lived on until the power failed, but its later signs were not on the device yet.
    touched = std::max(touched, last);
    return std::max(last, touched == 0 ? booted_ns : std::min(booted_ns, touched + kWrittenBackNs));
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

Status note_life(FoundDirectory& directory, bool durable) {
    auto ledger = directory.directory->open_file("ledger", io::OpenMode::kReadWrite);
    if (!ledger) return ledger.status().code() == Code::kNotFound ? Status::ok() : ledger.status();
    const Status noted = ledger::note_write(*ledger.value(), realtime_ns());
    if (noted.code() == Code::kCorrupt) return Status::ok();   // a corrupt ledger tells nothing
    return noted && durable ? ledger.value()->sync() : noted;
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
