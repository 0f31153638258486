#include "recover/stated.h"

#include <fmt/format.h>

#include <algorithm>

namespace forebay::recover {

namespace {

using group::Statement;
using log::ScannedLog;
using log::ScannedPiece;

Status damaged(const FoundLog& found, std::string what) {
    return {Code::kCorrupt, fmt::format("{}/log: {}", found.directory->path(), what)};
}

// Checks that all stated records are present and valid, and removes all others.
Status keep(const FoundLog& found, const Statement::Log& stated) {
    ScannedLog& log = *found.log;
    const std::uint64_t segment_bytes = log.segment_bytes;
    const std::uint64_t last = segment_bytes == 0
                                   ? 0
                                   : (stated.end - 1) / segment_bytes;   // the segment with the stated end
    if (segment_bytes == 0 || last < stated.needed_from || last - stated.needed_from >= log.pieces.size())
        return damaged(found, fmt::format("segments {} to {} should be there, {} are", stated.needed_from, last,
                                          log.pieces.size()));
    std::uint64_t expected = stated.needed_from;
    for (const ScannedPiece& piece : log.pieces) {   // ascending
        if (piece.order < stated.needed_from || piece.order > last) continue;
        if (piece.order != expected++) return damaged(found, fmt::format("segment {} should be there", expected - 1));
        if (piece.order < last ? !piece.whole : log::log_position(last, piece.right_to, segment_bytes) < stated.end)
            return damaged(found, fmt::format("segment {} cannot be read beyond offset {} of the file", piece.order,
                                              piece.begin + piece.right_to));
    }
    if (expected != last + 1) return damaged(found, fmt::format("segment {} should be there", expected));
    std::erase_if(log.records, [&](const log::ScannedRecord& record) {
        const std::uint64_t at = record.payload_at - log::payload_offset(record.extents.size());
        const auto piece = std::find_if(log.pieces.begin(), log.pieces.end(), [&](const ScannedPiece& one) {
            return at >= one.begin && at - one.begin < segment_bytes;
        });
        return piece == log.pieces.end() || piece->order < stated.needed_from ||
               log::log_position(piece->order, at - piece->begin, segment_bytes) >= stated.end;
    });
    return Status::ok();
}

// A count proves nothing: a process may have died before it gave back a segment that the board no longer counts.
Status find_logs_of_writers(const Session& session) {
    std::vector<area::ProcessIdentity> missing = session.board->board.writers;
    for (const FoundLog& found : session.logs) {
        const area::ProcessIdentity& owner = found.log->process;
        const auto writer = std::ranges::find_if(missing, [&](const area::ProcessIdentity& one) {
            return one.pid == owner.pid && one.start_ticks == owner.start_ticks;
        });
        if (writer != missing.end()) missing.erase(writer);
    }
    if (missing.empty()) return Status::ok();
    return {Code::kNotFound, fmt::format("{} processes wrote it together, and the log of process {} is missing",
                                         session.board->board.writers.size(), missing.front().pid)};
}

}   // namespace

void keep_what_is_stated(Session& session) {
    const auto is_durable = [](const FoundLog& found) { return found.log->durable; };
    if (session.board == nullptr) return;
    if (std::none_of(session.logs.begin(), session.logs.end(), is_durable)) {
        if (session.damage) session.missing = find_logs_of_writers(session);
        return;
    }
    session.durable_group = true;
    group::BoardView& board = session.board->board;
    if (board.frontier.lower() == log::Frontier::kNothing) return;
    if (!std::all_of(session.logs.begin(), session.logs.end(), is_durable)) {
        session.damage = {Code::kCorrupt, "not all logs of the processes that wrote it together are durable"};
        return;
    }
    if (!board.statement) {
        for (const FoundLog& found : session.logs)
            if (!found.log->records.empty())
                session.damage = {Code::kCorrupt,
                                  session.board->name + ": there is no statement about logs that have been written to"};
        session.unwritten = session.damage.is_ok();
        return;
    }
    const Statement& statement = *board.statement;
    board.frontier = statement.frontier;
    std::vector<bool> seen(statement.logs.size());
    for (const FoundLog& found : session.logs) {
        ScannedLog& log = *found.log;
        const std::uint32_t member = log.target.sharing.member;
        if (member >= seen.size() || seen[member]) {
            session.damage = damaged(found, fmt::format("it should not be the log of member {}", member));
            continue;
        }
        seen[member] = true;
        if (statement.logs[member].end == 0) log.records.clear();
        else if (Status kept = keep(found, statement.logs[member]); !kept) session.damage = std::move(kept);
        log.commit_sequence = statement.commit_sequence;
        log.committed_size = statement.committed_size;
        log.commit_time_ns = statement.commit_time_ns;
        log.durable = statement.certain;
    }
    for (std::size_t member = 0; member < seen.size(); ++member)
        if (!seen[member] && statement.logs[member].end != 0)
            session.missing = {Code::kNotFound,
                               fmt::format("{} processes wrote it together, and the log of member {} is missing",
                                           seen.size(), member)};
}

}   // namespace forebay::recover
