#include "group/own_log.h"

#include <chrono>

#include "group/liveness.h"
#include "group/staged_regions.h"

namespace forebay::group {

namespace {

// The interval between two checks of `clean`.
constexpr std::chrono::milliseconds kAskBoardAgain{1};

}   // namespace

log::Sharing OwnLog::sharing() const noexcept {
    const Participants::Setup& setup = participants_.setup();
    return {setup.consistent      ? log::Sharing::Kind::kConsistentNodes
            : setup.several_nodes ? log::Sharing::Kind::kSeveralNodes
                                  : log::Sharing::Kind::kOneNode,
            participants_.header().group, setup.durable ? static_cast<std::uint32_t>(setup.self) : 0};
}

void OwnLog::adopted(const log::Segment& segment, std::uint64_t order) noexcept {
    participants_.board().place(index(), order).store(segment.index(), std::memory_order_relaxed);
    if (participants_.board().lost()) return;   // other processes would look up a wrong place
    participants_.own_row().adopted.store(order + 1, std::memory_order_release);
}

OwnLog::Arrived OwnLog::arrived() const noexcept {
    const Arrivals& arrivals = participants_.header().arrivals;
    return {arrivals.appended.load(), arrivals.tickets.load()};
}

bool OwnLog::is_worth_following(const Arrived& seen) const noexcept {
    if (!participants_.lost()) return false;   // no record can come
    const BoardHeader& header = participants_.header();
    if (header.bell.wants_room.load() > 0 || header.bell.awaited.load() == Awaited::kArrived) return true;
    if (arrived() == seen) return false;
    if (participants_.setup().several_nodes)
        return header.arrivals.tickets.load() != header.arrivals.followed_tickets.load();
    // The drainer may find a record before the record is counted, so the difference may be negative.
    return static_cast<std::int64_t>(header.arrivals.appended.load() - header.arrivals.followed.load()) >=
           static_cast<std::int64_t>(participants_.setup().wake_bytes);
}

// This function raises `appended` before it reads `listening`; the listener does the reverse. Both use one total order,
// so one of the two sees the other's store.
void OwnLog::appended(std::span<const log::FileLog::Part> parts) noexcept {
    BoardHeader& header = participants_.header();
    std::uint64_t bytes = 0;
    for (const auto& part : parts) bytes += part.bytes.size();
    if (!participants_.drains()) header.arrivals.appended.fetch_add(bytes);
    if (participants_.setup().several_nodes) {
        const std::uint64_t ticket = header.arrivals.tickets.fetch_add(1) + 1;
        for (const auto& part : parts)
            mark_regions(header.exposed, {part.offset, part.offset + part.bytes.size()}, ticket);
    }
    if (header.bell.listening.load() != 0 && is_worth_following({}) && header.bell.listening.exchange(0) != 0)
        io::raise_and_wake(header.bell.doorbell);
}

Status OwnLog::wait_for_room(std::uint64_t seen) {
    BoardHeader& header = participants_.header();
    BoardRow& row = participants_.own_row();
    const std::uint32_t progress = header.progress.load();
    row.released_before_wait.store(seen + 1);
    row.wants_room.store(1);
    header.bell.wants_room.fetch_add(1);
    io::raise_and_wake(header.bell.doorbell);
    if (!participants_.board().lost() && row.released.load() == seen)
        io::wait_while(header.progress, progress, kLivenessInterval);
    header.bell.wants_room.fetch_sub(1);
    row.wants_room.store(0);
    row.released_before_wait.store(0);
    FOREBAY_TRY(participants_.lost());
    return participants_.drainer_gone();
}

Status OwnLog::drain_below(std::uint64_t below) {
    BoardHeader& header = participants_.header();
    header.bell.wants_room.fetch_add(1);
    Status outcome = participants_.lost();
    while (outcome) {
        const std::uint32_t progress = header.progress.load();
        io::raise_and_wake(header.bell.doorbell);
        if (participants_.frontier().lower() >= below) break;
        io::wait_while(header.progress, progress, kLivenessInterval);
        outcome = participants_.lost();
        if (outcome) outcome = participants_.drainer_gone();
    }
    header.bell.wants_room.fetch_sub(1);
    return outcome;
}

Status OwnLog::await_drained() {
    const BoardHeader& header = participants_.header();
    const std::uint64_t needed = header.arrivals.tickets.load();
    for (std::uint64_t asked = 1;; ++asked) {
        const std::uint64_t clean = header.exposed.clean.load();
        FOREBAY_TRY(participants_.lost());
        if (clean == Exposed::kCannotDrain) {
            FOREBAY_TRY(participants_.drainer_gone());
            return {Code::kUnavailable, "the process that drains for this node cannot write what is staged"};
        }
        if (clean >= needed) return Status::ok();
        if (asked % (kLivenessInterval / kAskBoardAgain) == 0) FOREBAY_TRY(participants_.drainer_gone());
        // The drainer raises no word when `clean` grows.
        static constexpr io::SharedWord kNeverRaised{0};
        io::wait_while(kNeverRaised, 0, kAskBoardAgain);
    }
}

}   // namespace forebay::group
