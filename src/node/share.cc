#include "node/share.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace forebay::node {

namespace {

// So often whoever waits looks whether the drainer still lives. Nothing else depends on it.
constexpr std::chrono::milliseconds kLivenessInterval{500};
// Of all segments: after so many were released a reader begins afresh rather than keep what is gone.
constexpr std::uint64_t kForgetAfterSegments = 256;

}   // namespace

NodeShare::NodeShare(Setup setup) : setup_(std::move(setup)) {}

NodeShare::~NodeShare() { stop_listening(); }

void NodeShare::add_lane(std::unique_ptr<io::File> pool, std::uint64_t segment_bytes) {
    lanes_.push_back(std::make_unique<Lane>(setup_.board, lanes_.size(), std::move(pool), segment_bytes));
}

// ---- this participant's own log --------------------------------------------------------------------

void NodeShare::adopted(const log::Segment& segment, std::uint64_t order) noexcept {
    setup_.board.place(setup_.self, order).store(segment.index(), std::memory_order_relaxed);
    setup_.board.row(setup_.self).adopted.store(order + 1, std::memory_order_release);
}

bool NodeShare::worth_following() const noexcept {
    const BoardHeader& header = setup_.board.header();
    if (header.wants_room.load() > 0) return true;
    if (setup_.several_nodes) return header.tickets.load() != header.followed_tickets.load();
    return header.appended.load() - header.followed.load() >= setup_.wake_bytes;
}

// `appended` before `listening` here, `listening` before `appended` in the listener, both in one total
// order: one of the two sees the other.
void NodeShare::appended(std::span<const log::FileLog::Part> parts) noexcept {
    BoardHeader& header = setup_.board.header();
    std::uint64_t bytes = 0;
    for (const auto& part : parts) bytes += part.bytes.size();
    if (!drains()) header.appended.fetch_add(bytes);
    if (setup_.several_nodes) {
        const std::uint64_t ticket = header.tickets.fetch_add(1) + 1;
        for (const auto& part : parts) mark({part.offset, part.offset + part.bytes.size()}, ticket);
    }
    if (header.listening.load() != 0 && worth_following() && header.listening.exchange(0) != 0)
        io::raise_and_wake(header.doorbell);
}

void NodeShare::mark(ByteRange range, std::uint64_t ticket) noexcept {
    if (range.empty()) return;
    const std::uint64_t first = range.begin / Exposed::kRegionBytes, last = (range.end - 1) / Exposed::kRegionBytes;
    for (std::uint64_t region = first; region <= last && region - first < Exposed::kMarks; ++region) {
        auto& at = exposed().marks[region % Exposed::kMarks];
        for (std::uint64_t there = at.load(); there < ticket && !at.compare_exchange_weak(there, ticket);) {}
    }
}

std::uint64_t NodeShare::next_sequence() noexcept {
    auto& sequence = setup_.board.header().sequence;
    // Whoever does not see this sees a counter that has not passed the number yet.
    setup_.board.row(setup_.self).drawing.store(sequence.load());
    return sequence.fetch_add(1);
}

// Every record with a number below the result is visible now.
std::uint64_t NodeShare::visible_below() const noexcept {
    std::uint64_t below = setup_.board.header().sequence.load();
    for (std::uint64_t i = 0; i < setup_.processes.size(); ++i)
        if (const std::uint64_t drawing = setup_.board.row(i).drawing.load(); drawing != 0) below = std::min(below, drawing);
    return below;
}

void NodeShare::all_drained() noexcept {
    auto& dead_below = setup_.board.header().dead_below;
    dead_below.store(std::max(dead_below.load(), complete_below_));
    if (setup_.several_nodes) exposed().clean.store(setup_.board.header().followed_tickets.load());
}

Status NodeShare::drainer_gone() const {
    const BoardHeader& header = setup_.board.header();
    if (const int error = static_cast<int>(header.failed.load()); error != 0)
        return Status::from_errno(error, "the process that drains for this node cannot write the file");
    const log::ProcessIdentity& drainer = setup_.processes[setup_.drainer];
    if (log::is_alive(drainer)) return Status::ok();
    return {Code::kUnavailable, fmt::format("process {}, which drains for this node, has died; what was staged stays in the logs",
                                            drainer.pid)};
}

Status NodeShare::anybody_gone() const {
    for (const log::ProcessIdentity& process : setup_.processes)
        if (!log::is_alive(process))
            return {Code::kUnavailable, fmt::format("process {}, which has the file open together with this one, has died",
                                                    process.pid)};
    return Status::ok();
}

// The last one to come raises the word that the others sleep on. Nobody can come to the next meeting before
// it has left this one, and the count starts afresh before anybody leaves.
Result<bool> NodeShare::meet(bool failed) {
    BoardHeader& header = setup_.board.header();
    setup_.board.row(setup_.self).failed.store(failed ? 1 : 0);
    const std::uint32_t meeting = header.meeting.load();
    if (header.arrived.fetch_add(1) + 1 == setup_.processes.size()) {
        bool anywhere = false;
        for (std::uint64_t i = 0; i < setup_.processes.size(); ++i)
            anywhere = anywhere || setup_.board.row(i).failed.load() != 0;
        header.outcome.store(anywhere ? 1 : 0);
        header.arrived.store(0);
        io::raise_and_wake(header.meeting);
        return anywhere;
    }
    while (header.meeting.load() == meeting) {
        io::wait_while(header.meeting, meeting, kLivenessInterval);
        if (header.meeting.load() == meeting) FOREBAY_TRY(anybody_gone());
    }
    return header.outcome.load() != 0;
}

Status NodeShare::wait_for_room(std::uint64_t seen) {
    BoardHeader& header = setup_.board.header();
    BoardRow& row = setup_.board.row(setup_.self);
    const std::uint32_t progress = header.progress.load();
    row.wants_room.store(1);
    header.wants_room.fetch_add(1);
    io::raise_and_wake(header.doorbell);
    if (row.released.load() == seen) io::wait_while(header.progress, progress, kLivenessInterval);
    header.wants_room.fetch_sub(1);
    row.wants_room.store(0);
    return drainer_gone();
}

// ---- the drainer -----------------------------------------------------------------------------------

Status NodeShare::listen(std::function<void(bool)> look) {
    try {
        listener_ = std::jthread([this, look = std::move(look)](const std::stop_token& stop) { serve(stop, look); });
    } catch (const std::system_error& error) {
        return {Code::kUnavailable, std::string("start the thread that listens to the other processes: ") + error.what()};
    }
    return Status::ok();
}

void NodeShare::serve(const std::stop_token& stop, const std::function<void(bool)>& look) {
    BoardHeader& header = setup_.board.header();
    while (!stop.stop_requested()) {
        const std::uint32_t rung = header.doorbell.load();
        header.listening.store(1);
        if (!worth_following() && !stop.stop_requested()) io::wait_while(header.doorbell, rung);
        header.listening.store(0);
        if (stop.stop_requested()) return;
        const bool room_wanted = header.wants_room.load() > 0;
        look(room_wanted);
        // Whoever waits looks again when something was released; until then the bell may rest.
        if (room_wanted) io::wait_while(header.doorbell, header.doorbell.load(), kLivenessInterval);
    }
}

void NodeShare::stop_listening() noexcept {
    if (!listener_.joinable()) return;
    listener_.request_stop();
    io::raise_and_wake(setup_.board.header().doorbell);
    listener_.join();
}

void NodeShare::recycle() noexcept {
    bool any = false;
    for (const auto& lane : lanes_) any = lane->recycle() || any;
    if (any && setup_.board.header().wants_room.load() > 0) io::raise_and_wake(setup_.board.header().progress);
}

void NodeShare::fail(int sys_errno) noexcept {
    setup_.board.header().failed.store(static_cast<std::uint32_t>(sys_errno != 0 ? sys_errno : EIO));
    io::raise_and_wake(setup_.board.header().progress);
}

void NodeShare::finished() noexcept {
    setup_.board.header().finished.store(1);
    io::raise_and_wake(setup_.board.header().progress);
}

Status NodeShare::wait_until_finished() {
    BoardHeader& header = setup_.board.header();
    for (;;) {
        const std::uint32_t progress = header.progress.load();
        if (header.finished.load() != 0) return Status::ok();
        io::wait_while(header.progress, progress, kLivenessInterval);
        if (header.finished.load() != 0) return Status::ok();
        if (!log::is_alive(setup_.processes[setup_.drainer])) return drainer_gone();
    }
}

// ---- following -------------------------------------------------------------------------------------

// Reads all logs so that nothing before a marker is missing. False: begin afresh.
bool NodeShare::read_cut() {
    const auto& epoch = setup_.board.header().epoch;
    for (;;) {
        const std::uint64_t before = epoch.load(std::memory_order_acquire);
        for (const auto& lane : lanes_) {
            const Status read = lane->read(records_);
            if (read.code() == Code::kNotFound) return false;
            if (!read && damage_.is_ok()) damage_ = read;
        }
        if (epoch.load(std::memory_order_acquire) == before) return true;
    }
}

bool NodeShare::follow(const Visit& visit) {
    if (!drains()) {
        std::uint64_t released = 0;
        for (std::uint64_t i = 0; i < lanes_.size(); ++i)
            released += setup_.board.row(i).released.load(std::memory_order_relaxed);
        if (released - released_at_restart_ > kForgetAfterSegments) return false;
        // Other nodes may write now what this one has drained.
        if (setup_.several_nodes && dead_below() > dead_at_restart_) return false;
    }
    records_.clear();
    // What has a ticket is visible; the logs are read after the tickets.
    const std::uint64_t tickets = setup_.board.header().tickets.load();
    const std::uint64_t complete_below = visible_below();
    if (!read_cut()) return false;
    complete_below_ = complete_below;
    if (drains()) setup_.board.header().followed_tickets.store(tickets);
    // Stable: a record that was copied forward keeps its number, and the copy comes later.
    std::stable_sort(records_.begin(), records_.end(),
                     [](const Lane::Record& one, const Lane::Record& other) { return one.sequence < other.sequence; });
    std::uint64_t bytes = 0;
    for (const Lane::Record& record : records_) {
        // Later ones are visited, dead or not: they supersede what was visited before.
        if (record.sequence < dead_at_restart_) continue;
        visit({record.kind, record.data_class, record.sequence, record.argument, record.extents, record.segment,
               record.payload, record.generation});
        if (record.kind == log::RecordKind::kData)
            for (const ByteRange& extent : record.extents) bytes += extent.size();
    }
    if (drains()) setup_.board.header().followed.fetch_add(bytes);
    return true;
}

void NodeShare::restart() {
    released_at_restart_ = 0;
    for (std::uint64_t i = 0; i < lanes_.size(); ++i) {
        released_at_restart_ += setup_.board.row(i).released.load(std::memory_order_relaxed);
        lanes_[i]->restart();
    }
    // After the lanes: what supersedes a record was released only once this had passed both.
    dead_at_restart_ = dead_below();
}

}   // namespace forebay::node
