#include "group/record_order.h"

#include <algorithm>

namespace forebay::group {

namespace {

// A reader restarts after this number of releases in all logs. Otherwise it would keep records of released segments.
constexpr std::uint64_t kForgetAfterSegments = 256;

}   // namespace

std::uint64_t RecordOrder::next_sequence() noexcept {
    auto& sequence = participants_.header().sequence;
    // A participant that does not see this store reads a counter that is not above the number yet.
    participants_.own_row().drawing.store(sequence.load());
    return sequence.fetch_add(1);
}

// The drainer stores that it waits, then reads `drawing`. This function stores `drawing`, then reads that the drainer
// waits. So one of the two sees the other's store.
void RecordOrder::published() noexcept {
    participants_.own_row().drawing.store(0);
    BoardHeader& header = participants_.header();
    Awaited expected = Awaited::kRecords;
    if (header.bell.awaited.load() == expected &&
        header.bell.awaited.compare_exchange_strong(expected, Awaited::kArrived))
        io::raise_and_wake(header.bell.doorbell);
}

// Returns a number below which every record is visible.
std::uint64_t RecordOrder::visible_below() const noexcept {
    std::uint64_t below = participants_.header().sequence.load();
    for (std::uint64_t i = 0; i < participants_.count(); ++i)
        if (const std::uint64_t drawing = participants_.row(i).drawing.load(); drawing != 0)
            below = std::min(below, drawing);
    return below;
}

void RecordOrder::forget_numbers_of_the_dead() noexcept {
    for (std::uint64_t i = 0; i < participants_.count(); ++i) {
        auto& drawing = participants_.row(i).drawing;
        if (drawing.load() != 0 && !participants_.is_alive(i)) drawing.store(0);
    }
}

void RecordOrder::await_complete() noexcept {
    Bell& bell = participants_.header().bell;
    const bool awaited_before = bell.awaited.exchange(Awaited::kRecords) == Awaited::kRecords;
    if (others_stopped_ || visible_below() > complete_below_) {
        completeness_awaited_ = true;
        bell.awaited.store(Awaited::kArrived);
        io::raise_and_wake(bell.doorbell);
    } else if (!awaited_before && bell.listening.exchange(0) != 0) {
        // The listener may sleep without a limit. From now on it has to see if a process dies with a drawn number.
        io::raise_and_wake(bell.doorbell);
    }
}

// Reads all logs so that no record before a marker is missing. Returns false if the caller must restart. The drainer
// never restarts: the index has its own records, which no follower reads again.
bool RecordOrder::read_cut() {
    const auto& epoch = participants_.header().epoch;
    for (;;) {
        const std::uint64_t before = epoch.load(std::memory_order_acquire);
        for (const auto& log : logs_) {
            const Status read = log->read(records_);
            const bool reused = read.code() == Code::kNotFound;
            if (reused && !participants_.drains()) return false;
            if (read || !damage_.is_ok()) continue;
            damage_ = reused ? Status(Code::kCorrupt, read.message() + ", although it was not released") : read;
        }
        if (epoch.load(std::memory_order_acquire) == before) return true;
    }
}

bool RecordOrder::find() {
    if (!participants_.drains()) {
        std::uint64_t released = 0;
        for (std::uint64_t i = 0; i < logs_.size(); ++i)
            released += participants_.row(i).released.load(std::memory_order_relaxed);
        if (released - released_at_restart_ > kForgetAfterSegments) return false;
        // Other nodes may now write the bytes that this node has drained.
        if (participants_.setup().several_nodes && participants_.frontier().lower() > dead_at_restart_.lower())
            return false;
    }
    // A record with a ticket is visible. So the code reads the tickets before the logs.
    found_ = {participants_.header().arrivals.tickets.load(),
              others_stopped_ ? log::Frontier::kNothing : visible_below()};
    if (!read_cut()) return false;
    new_bytes_ = 0;
    if (participants_.drains())
        for (; counted_ < records_.size(); ++counted_)
            if (records_[counted_].kind == log::RecordKind::kData) new_bytes_ += records_[counted_].bytes;
    // A stable sort keeps a record's forward copy, which has the same number, after the record.
    std::stable_sort(records_.begin(), records_.end(),
                     [](const Record& one, const Record& other) { return one.sequence < other.sequence; });
    return true;
}

void RecordOrder::count_found(std::atomic<std::uint64_t>& pending) noexcept {
    const std::uint64_t bytes = std::exchange(new_bytes_, 0);
    found_bytes_ += bytes;
    pending.fetch_add(bytes);
    participants_.header().arrivals.followed.fetch_add(bytes);
}

void RecordOrder::visit_found(const Visit& visit) {
    for (Record& record : records_) {
        if (record.sequence < dead_at_restart_.lower()) continue;
        if (record.kind == log::RecordKind::kData && record.sequence < dead_at_restart_.of(record.data_class))
            record.kind = log::RecordKind::kBypass;
        visit(record);
    }
}

void RecordOrder::forget_records() noexcept {
    for (const Record& record : records_) record.segment->unindexed.fetch_sub(1, std::memory_order_relaxed);
    records_.clear();
    counted_ = 0;
    found_bytes_ = 0;
}

void RecordOrder::followed() {
    forget_records();
    completeness_awaited_ = false;
    // An unreadable record may be older than all records that were read.
    if (!participants_.drains() || !damage().is_ok()) return;
    complete_below_ = found_.below;
    participants_.header().arrivals.followed_tickets.store(found_.tickets);
}

void RecordOrder::restart() {
    forget_records();
    released_at_restart_ = 0;
    for (std::uint64_t i = 0; i < logs_.size(); ++i) {
        released_at_restart_ += participants_.row(i).released.load(std::memory_order_relaxed);
        logs_[i]->restart();
    }
    dead_at_restart_ = participants_.frontier();   // after the followers
}

}   // namespace forebay::group
