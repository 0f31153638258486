#include "node/share.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/attempt.h"
#include "base/background_thread.h"

namespace forebay::node {

namespace {

// So often whoever waits looks whether the drainer still lives. Nothing else depends on it.
constexpr std::chrono::milliseconds kLivenessInterval{500};
// Between two questions to the drainer whether it has drained everything.
constexpr std::chrono::milliseconds kAskBoardAgain{1};
// board::BoardHeader::finished.
constexpr std::uint32_t kFinished = 1, kFinishedWithFailure = 2;
// Of all segments: after so many were released a reader begins afresh rather than keep what is gone.
constexpr std::uint64_t kForgetAfterSegments = 256;

}   // namespace

// Recovery touches nothing as long as one of them lives.
NodeShare::NodeShare(Setup setup) : setup_(std::move(setup)) {
    if (!drains() || setup_.processes.empty()) return;
    setup_.board.header().team = setup_.team;
    setup_.board.header().nodes = setup_.nodes;
    setup_.board.header().boot_id = setup_.processes.front().boot_id;
    for (std::uint64_t i = 0; i < setup_.processes.size(); ++i) {
        setup_.board.row(i).pid.store(setup_.processes[i].pid, std::memory_order_relaxed);
        setup_.board.row(i).start_ticks.store(setup_.processes[i].start_ticks, std::memory_order_relaxed);
    }
}

NodeShare::~NodeShare() { stop_listening(); }

void NodeShare::add_lane(std::unique_ptr<io::File> pool, std::uint64_t segment_bytes) {
    lanes_.push_back(std::make_unique<Lane>(setup_.board, lanes_.size(), std::move(pool), segment_bytes));
}

// ---- this participant's own log --------------------------------------------------------------------

void NodeShare::adopted(const log::Segment& segment, std::uint64_t order) noexcept {
    setup_.board.place(setup_.self, order).store(segment.index(), std::memory_order_relaxed);
    if (setup_.board.lost()) return;   // others would look for it elsewhere
    setup_.board.row(setup_.self).adopted.store(order + 1, std::memory_order_release);
}

bool NodeShare::worth_following() const noexcept {
    if (setup_.board.lost()) return false;   // nothing comes any more
    const board::BoardHeader& header = setup_.board.header();
    if (header.wants_room.load() > 0 || header.awaited.load() == board::Awaited::kArrived) return true;
    if (setup_.several_nodes) return header.tickets.load() != header.followed_tickets.load();
    // A record may be found before it is counted.
    return static_cast<std::int64_t>(header.appended.load() - header.followed.load()) >=
           static_cast<std::int64_t>(setup_.wake_bytes);
}

// `appended` before `listening` here, `listening` before `appended` in the listener, both in one total
// order: one of the two sees the other.
void NodeShare::appended(std::span<const log::FileLog::Part> parts) noexcept {
    board::BoardHeader& header = setup_.board.header();
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
    const std::uint64_t first = range.begin / board::Exposed::kRegionBytes,
                        last = (range.end - 1) / board::Exposed::kRegionBytes;
    for (std::uint64_t region = first; region <= last && region - first < board::Exposed::kMarks; ++region) {
        auto& at = exposed().marks[region % board::Exposed::kMarks];
        for (std::uint64_t there = at.load(); there < ticket && !at.compare_exchange_weak(there, ticket);) {
        }
    }
}

// On one node a mark only says that there was a record. Most are there already: they are not stored to again.
void NodeShare::note_staged(std::span<const log::FileLog::Part> parts) noexcept {
    std::uint64_t noted = UINT64_MAX;
    for (const auto& part : parts) {
        if (part.bytes.empty()) continue;
        const std::uint64_t first = part.offset / board::Exposed::kRegionBytes,
                            last = (part.offset + part.bytes.size() - 1) / board::Exposed::kRegionBytes;
        if (first == noted && last == noted) continue;
        for (std::uint64_t region = first; region <= last && region - first < board::Exposed::kMarks; ++region)
            if (auto& mark = exposed().marks[region % board::Exposed::kMarks]; mark.load() == 0) mark.store(1);
        noted = last;
    }
}

ByteRange NodeShare::first_unstaged(ByteRange range) const noexcept {
    const auto staged = [this](std::uint64_t offset) {
        return exposed().marks[offset / board::Exposed::kRegionBytes % board::Exposed::kMarks].load() != 0;
    };
    const auto next = [&range](std::uint64_t offset) {
        return std::min(range.end, (offset / board::Exposed::kRegionBytes + 1) * board::Exposed::kRegionBytes);
    };
    while (!range.empty() && staged(range.begin)) range.begin = next(range.begin);
    ByteRange part{range.begin, range.begin};
    while (part.end < range.end && !staged(part.end)) part.end = next(part.end);
    return part;
}

std::uint64_t NodeShare::next_sequence() noexcept {
    auto& sequence = setup_.board.header().sequence;
    // Whoever does not see this sees a counter that has not passed the number yet.
    setup_.board.row(setup_.self).drawing.store(sequence.load());
    return sequence.fetch_add(1);
}

// Either the drainer, having said that it waits, sees no number drawn here any more, or this sees that it waits.
void NodeShare::published() noexcept {
    setup_.board.row(setup_.self).drawing.store(0);
    board::BoardHeader& header = setup_.board.header();
    board::Awaited expected = board::Awaited::kRecords;
    if (header.awaited.load() == expected && header.awaited.compare_exchange_strong(expected, board::Awaited::kArrived))
        io::raise_and_wake(header.doorbell);
}

// Every record with a number below the result is visible now.
std::uint64_t NodeShare::visible_below() const noexcept {
    std::uint64_t below = setup_.board.header().sequence.load();
    for (std::uint64_t i = 0; i < setup_.processes.size(); ++i)
        if (const std::uint64_t drawing = setup_.board.row(i).drawing.load(); drawing != 0)
            below = std::min(below, drawing);
    return below;
}

// By the lock in its directory, which means the same in all containers of the node. What cannot be known is taken for
// life.
bool NodeShare::is_alive(std::uint64_t participant) const noexcept {
    if (participant < setup_.directories.size())
        return area::life_at(setup_.directories[participant]) != area::Life::kEnded;
    bool seen = true;
    (void)attempt([&] { seen = area::is_seen_running(setup_.processes[participant]); });
    return seen;
}

// Whoever died between drawing a number and publishing its record never will.
void NodeShare::forget_numbers_of_the_dead() noexcept {
    for (std::uint64_t i = 0; i < setup_.processes.size(); ++i) {
        auto& drawing = setup_.board.row(i).drawing;
        if (drawing.load() != 0 && !is_alive(i)) drawing.store(0);
    }
}

void NodeShare::await_complete() noexcept {
    board::BoardHeader& header = setup_.board.header();
    header.awaited.store(board::Awaited::kRecords);
    if (!alone_ && visible_below() <= complete_below_) return;
    completeness_awaited_ = true;
    header.awaited.store(board::Awaited::kArrived);
    io::raise_and_wake(header.doorbell);
}

void NodeShare::at_rest() noexcept {
    board::BoardHeader& header = setup_.board.header();
    if (header.wants_room.load() > 0) io::raise_and_wake(header.doorbell);
}

log::Frontier NodeShare::frontier() const noexcept {
    return {setup_.board.header().dead_raw.load(), setup_.board.header().dead_metadata.load()};
}

void NodeShare::all_drained() noexcept {
    if (setup_.several_nodes) exposed().clean.store(setup_.board.header().followed_tickets.load());
}

Status NodeShare::drainer_gone() const {
    const board::BoardHeader& header = setup_.board.header();
    if (const int error = static_cast<int>(header.failed.load());
        error != 0 && header.through.load() == board::Through::kNo)
        return Status::from_errno(error, "the process that drains for this node cannot write the file");
    const area::ProcessIdentity& drainer = setup_.processes[setup_.drainer];
    if (is_alive(setup_.drainer)) return Status::ok();
    return {Code::kUnavailable,
            fmt::format("process {}, which drains for this node, has died; what was staged stays in the logs",
                        drainer.pid)};
}

Status NodeShare::wait_for_room(std::uint64_t seen) {
    board::BoardHeader& header = setup_.board.header();
    board::BoardRow& row = setup_.board.row(setup_.self);
    const std::uint32_t progress = header.progress.load();
    row.wants_room.store(1);
    header.wants_room.fetch_add(1);
    io::raise_and_wake(header.doorbell);
    if (!setup_.board.lost() && row.released.load() == seen)
        io::wait_while(header.progress, progress, kLivenessInterval);
    header.wants_room.fetch_sub(1);
    row.wants_room.store(0);
    FOREBAY_TRY(lost());
    return drainer_gone();
}

Status NodeShare::await_drained() {
    const std::uint64_t needed = setup_.board.header().tickets.load();
    for (std::uint64_t asked = 1;; ++asked) {
        const std::uint64_t clean = exposed().clean.load();
        FOREBAY_TRY(lost());
        if (clean == board::Exposed::kCannotDrain) {
            FOREBAY_TRY(drainer_gone());
            return {Code::kUnavailable, "the process that drains for this node cannot write what is staged"};
        }
        if (clean >= needed) return Status::ok();
        if (asked % (kLivenessInterval / kAskBoardAgain) == 0) FOREBAY_TRY(drainer_gone());
        // Nobody raises a word for this.
        static constexpr io::SharedWord kNobodyRaises{0};
        io::wait_while(kNobodyRaises, 0, kAskBoardAgain);
    }
}

Status NodeShare::drain_below(std::uint64_t below) {
    board::BoardHeader& header = setup_.board.header();
    header.wants_room.fetch_add(1);
    Status outcome = lost();
    while (outcome) {
        const std::uint32_t progress = header.progress.load();
        io::raise_and_wake(header.doorbell);
        if (frontier().lower() >= below) break;
        io::wait_while(header.progress, progress, kLivenessInterval);
        outcome = lost();
        if (outcome) outcome = drainer_gone();
    }
    header.wants_room.fetch_sub(1);
    return outcome;
}

// ---- the drainer -----------------------------------------------------------------------------------

Status NodeShare::listen(std::function<void(bool)> look) {
    try {
        listener_ = start_background_thread([this, look = std::move(look)](const std::stop_token& stop) {
            serve(stop, look);
        });
    } catch (const std::system_error& error) {
        return {Code::kUnavailable,
                std::string("start the thread that listens to the other processes: ") + error.what()};
    }
    return Status::ok();
}

void NodeShare::serve(const std::stop_token& stop, const std::function<void(bool)>& look) {
    board::BoardHeader& header = setup_.board.header();
    while (!stop.stop_requested()) {
        const std::uint32_t rung = header.doorbell.load();
        header.listening.store(1);
        if (!worth_following() && !stop.stop_requested()) {
            const bool waits = header.awaited.load() == board::Awaited::kRecords;
            // Where the board is lost nobody rings any more whom this thread would hear.
            io::wait_while({header.doorbell, rung}, {ending_, 0},
                           waits ? std::optional(kLivenessInterval) : std::nullopt);
        }
        header.listening.store(0);
        if (stop.stop_requested()) return;
        if (header.awaited.load() == board::Awaited::kRecords) forget_numbers_of_the_dead();
        else header.awaited.store(board::Awaited::kNothing);
        const bool room_wanted = header.wants_room.load() > 0;
        look(room_wanted);
        // Whoever waits looks again when something was released; until then the bell may rest.
        if (room_wanted) io::wait_while({header.doorbell, header.doorbell.load()}, {ending_, 0}, kLivenessInterval);
    }
}

void NodeShare::stop_listening() noexcept {
    alone_ = true;
    if (!listener_.joinable()) return;
    listener_.request_stop();
    io::raise_and_wake(ending_);
    listener_.join();
}

// Nothing: a truncation is in the way.
std::optional<log::Frontier> NodeShare::next_frontier(const Account& account) const noexcept {
    log::Frontier frontier{complete_below_, complete_below_};
    frontier.lower_to(account.needed);
    for (const auto& lane : lanes_) frontier.lower_to(lane->needed());
    // Whoever finds the record of a truncation takes all that it finds no later record of for cut off.
    if (account.cut != 0 && account.cut >= frontier.lower()) return std::nullopt;
    return frontier;
}

// A segment's account is coarse, so less may seem dead than before. What was dead stays so.
// True: it has moved.
bool NodeShare::store_frontier(const log::Frontier& next) noexcept {
    board::BoardHeader& header = setup_.board.header();
    const log::Frontier before = frontier();
    header.dead_raw.store(std::max(next.raw, before.raw));
    header.dead_metadata.store(std::max(next.metadata, before.metadata));
    return next.raw > before.raw || next.metadata > before.metadata;
}

std::optional<log::Frontier> NodeShare::recycle(const Account& account) noexcept {
    board::BoardHeader& header = setup_.board.header();
    const std::optional<log::Frontier> next = next_frontier(account);
    if (!next) return std::nullopt;
    const bool limited = next->lower() == complete_below_;
    bool any = store_frontier(*next), waits = account.idle;   // somebody may wait for either
    if (setup_.board.lost()) return std::nullopt;             // recovery would not know of it
    for (const auto& lane : lanes_) {
        any = lane->release_below(lane->needed_from(frontier(), account.drained)) || any;
        waits = waits || lane->waits_for_frontier();
    }
    if (waits && limited) await_complete();
    if (any && header.wants_room.load() > 0) io::raise_and_wake(header.progress);
    return frontier();
}

// ---- durability=node ---------------------------------------------------------------------------------

board::Statement NodeShare::survey() const {
    board::Statement statement;
    statement.frontier = frontier();
    for (const auto& lane : lanes_) statement.logs.push_back({lane->begin(), lane->end()});
    return statement;
}

bool NodeShare::plan_release(const Account& account, board::Statement& plan) {
    const std::optional<log::Frontier> next = next_frontier(account);
    if (!next) return false;
    plan.frontier = {std::max(next->raw, plan.frontier.raw), std::max(next->metadata, plan.frontier.metadata)};
    bool waits = account.idle;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if (!lanes_[i]->readable()) continue;
        const std::uint64_t needed_from = lanes_[i]->needed_from(plan.frontier, account.drained);
        waits = waits || (needed_from == lanes_[i]->begin() && lanes_[i]->waits_for_frontier());
        plan.logs[i].needed_from = needed_from;
    }
    if (waits && next->lower() == complete_below_) await_complete();
    return true;
}

Status NodeShare::state(const board::Statement& statement) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        const board::BoardRow& row = setup_.board.row(i);
        if (lanes_[i]->readable() && row.synced.load(std::memory_order_acquire) < statement.logs[i].end)
            FOREBAY_TRY(lanes_[i]->sync());
    }
    board::Statement numbered = statement;
    numbered.number = ++statements_;
    for (std::size_t i = 0; i < lanes_.size(); ++i)
        if (board::Statement::Log& one = numbered.logs[i]; one.end <= one.needed_from * lanes_[i]->segment_bytes())
            one.end = 0;
    return setup_.board.state(numbered);
}

void NodeShare::release(const board::Statement& stated) noexcept {
    board::BoardHeader& header = setup_.board.header();
    bool any = store_frontier(stated.frontier);
    if (setup_.board.lost()) return;
    for (std::size_t i = 0; i < lanes_.size(); ++i)
        any = (lanes_[i]->readable() && lanes_[i]->release_below(stated.logs[i].needed_from)) || any;
    if (any && header.wants_room.load() > 0) io::raise_and_wake(header.progress);
}

Status NodeShare::retire() {
    (void)store_frontier({log::Frontier::kNothing, log::Frontier::kNothing});
    FOREBAY_TRY(lost());
    return setup_.board.sync();
}

void NodeShare::fail(int sys_errno, bool through) noexcept {
    if (through && !goes_through()) setup_.board.header().through.store(board::Through::kSoon);
    if (setup_.several_nodes) exposed().clean.store(board::Exposed::kCannotDrain);
    setup_.board.header().failed.store(static_cast<std::uint32_t>(sys_errno != 0 ? sys_errno : EIO));
    io::raise_and_wake(setup_.board.header().progress);
}

void NodeShare::let_through() noexcept {
    setup_.board.header().through.store(board::Through::kNow, std::memory_order_release);
    io::raise_and_wake(setup_.board.header().progress);
}

void NodeShare::finished(const Status& outcome) noexcept {
    setup_.board.header().finished.store(outcome ? kFinished : kFinishedWithFailure);
    io::raise_and_wake(setup_.board.header().progress);
}

void NodeShare::come_to_end(End end) noexcept {
    setup_.board.row(setup_.self).wants_room.store(static_cast<std::uint64_t>(end), std::memory_order_release);
    io::raise_and_wake(setup_.board.header().doorbell);
}

bool NodeShare::all_came_to(End end) const noexcept {
    for (std::uint64_t i = 0; i < setup_.processes.size(); ++i)
        if (i != setup_.self &&
            setup_.board.row(i).wants_room.load(std::memory_order_acquire) < static_cast<std::uint64_t>(end))
            return false;
    return !setup_.board.lost();
}

Status NodeShare::outcome_of_end() const {
    if (setup_.board.header().finished.load() == kFinished) return Status::ok();
    const auto error = static_cast<int>(setup_.board.header().failed.load());
    return Status::from_errno(error != 0 ? error : EIO,
                              fmt::format("process {}, which drains for this node, could not write all of the file",
                                          setup_.processes[setup_.drainer].pid));
}

Status NodeShare::await_ends(End end, std::optional<std::chrono::milliseconds> at_most) {
    board::BoardHeader& header = setup_.board.header();
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        const std::uint32_t rung = header.doorbell.load();
        std::uint64_t going_on = 0;
        for (std::uint64_t i = 0; i < setup_.processes.size(); ++i)
            if (i != setup_.self &&
                setup_.board.row(i).wants_room.load(std::memory_order_acquire) < static_cast<std::uint64_t>(end) &&
                is_alive(i))
                going_on = setup_.processes[i].pid;
        FOREBAY_TRY(lost());
        if (going_on == 0) return Status::ok();
        auto turn = kLivenessInterval;
        if (at_most) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(begin + *at_most -
                                                                           std::chrono::steady_clock::now());
            if (left.count() <= 0)
                return {Code::kUnavailable, fmt::format("process {}, which has it open as well, goes on", going_on)};
            turn = std::min(left, turn);
        }
        io::wait_while(header.doorbell, rung, turn);
    }
}

Status NodeShare::wait_until_finished(std::optional<std::chrono::milliseconds> at_most) {
    board::BoardHeader& header = setup_.board.header();
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        if (at_most && std::chrono::steady_clock::now() - begin > *at_most && header.finished.load() == 0)
            return {Code::kUnavailable, fmt::format("process {}, which drains for this node, has not come to its end",
                                                    setup_.processes[setup_.drainer].pid)};
        const std::uint32_t progress = header.progress.load();
        if (header.finished.load() != 0) return Status::ok();
        io::wait_while(header.progress, progress, kLivenessInterval);
        if (header.finished.load() != 0) return Status::ok();
        // If the drainer could not store to this page of the board, nor can this process.
        header.progress.fetch_add(0);
        FOREBAY_TRY(lost());
        if (!is_alive(setup_.drainer)) return drainer_gone();
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

bool NodeShare::find() {
    if (!drains()) {
        std::uint64_t released = 0;
        for (std::uint64_t i = 0; i < lanes_.size(); ++i)
            released += setup_.board.row(i).released.load(std::memory_order_relaxed);
        if (released - released_at_restart_ > kForgetAfterSegments) return false;
        // Other nodes may write now what this one has drained.
        if (setup_.several_nodes && frontier().lower() > dead_at_restart_.lower()) return false;
    }
    // What has a ticket is visible; the logs are read after the tickets.
    found_ = {setup_.board.header().tickets.load(), alone_ ? log::Frontier::kNothing : visible_below()};
    if (!read_cut()) return false;
    new_bytes_ = 0;
    if (drains())
        for (; counted_ < records_.size(); ++counted_)
            if (records_[counted_].kind == log::RecordKind::kData) new_bytes_ += records_[counted_].bytes;
    // Stable: a record that was copied forward keeps its number, and the copy comes later.
    std::stable_sort(records_.begin(), records_.end(),
                     [](const Lane::Record& one, const Lane::Record& other) { return one.sequence < other.sequence; });
    return true;
}

void NodeShare::count_found(std::atomic<std::uint64_t>& pending) noexcept {
    const std::uint64_t bytes = std::exchange(new_bytes_, 0);
    found_bytes_ += bytes;
    pending.fetch_add(bytes);
    setup_.board.header().followed.fetch_add(bytes);
}

void NodeShare::visit_found(const Visit& visit) {
    for (const Lane::Record& record : records_) {
        const bool data = record.kind == log::RecordKind::kData;
        if (record.sequence < dead_at_restart_.lower()) continue;
        const bool dead = data && record.sequence < dead_at_restart_.of(record.data_class);
        visit({dead ? log::RecordKind::kThrough : record.kind, record.data_class, record.sequence, record.argument,
               record.extents, record.segment, record.payload, record.generation, record.bytes});
    }
}

void NodeShare::forget_records() noexcept {
    for (const Lane::Record& record : records_) record.segment->unindexed.fetch_sub(1, std::memory_order_relaxed);
    records_.clear();
    counted_ = 0;
    found_bytes_ = 0;
}

void NodeShare::followed() {
    forget_records();
    completeness_awaited_ = false;
    // What could not be read may be older than anything that was.
    if (!drains() || !damage().is_ok()) return;
    complete_below_ = found_.below;
    setup_.board.header().followed_tickets.store(found_.tickets);
}

void NodeShare::restart() {
    forget_records();
    released_at_restart_ = 0;
    for (std::uint64_t i = 0; i < lanes_.size(); ++i) {
        released_at_restart_ += setup_.board.row(i).released.load(std::memory_order_relaxed);
        lanes_[i]->restart();
    }
    dead_at_restart_ = frontier();   // after the lanes
}

}   // namespace forebay::node
