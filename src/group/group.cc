#include "group/group.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "base/background_thread.h"
#include "group/liveness.h"

namespace forebay::group {

namespace {

using std::chrono::milliseconds, std::chrono::steady_clock;

// Returns the time until `due`, and `at_most` if that is less; none: without a limit.
std::optional<milliseconds> time_until(std::optional<steady_clock::time_point> due,
                                       std::optional<milliseconds> at_most) noexcept {
    if (!due) return at_most;
    const milliseconds left = std::max(std::chrono::ceil<milliseconds>(*due - steady_clock::now()), milliseconds(0));
    return std::min(left, at_most.value_or(left));
}

}   // namespace

void Group::add_log(std::unique_ptr<io::File> pool, std::uint64_t segment_bytes) {
    logs_.push_back(std::make_unique<LogFollower>(participants_.board(), logs_.size(), std::move(pool), segment_bytes));
}

Status Group::listen(Poll poll) {
    try {
        listener_ = start_background_thread([this, poll = std::move(poll)](const std::stop_token& stop) {
            serve(stop, poll);
        });
    } catch (const std::system_error& error) {
        return {Code::kUnavailable,
                std::string("start the thread that listens to the other processes: ") + error.what()};
    }
    return Status::ok();
}

void Group::serve(const std::stop_token& stop, const Poll& poll) {
    BoardHeader& header = participants_.header();
    std::uint32_t called = 0;   // a call before this thread began counts, too
    std::optional<steady_clock::time_point> due;
    OwnLog::Arrived seen;   // before the last `poll`
    while (!stop.stop_requested()) {
        const std::uint32_t rung = header.bell.doorbell.load();
        header.bell.listening.store(1);
        if (!log_.is_worth_following(seen) && !stop.stop_requested()) {
            const bool expects_number = header.bell.awaited.load() == Awaited::kRecords;
            // After a loss of the board, only `calls_` wakes this thread.
            io::wait_while({header.bell.doorbell, rung}, {calls_, called},
                           time_until(due, expects_number ? std::optional(kLivenessInterval) : std::nullopt));
        }
        header.bell.listening.store(0);
        if (stop.stop_requested()) return;
        called = calls_.load();   // first: a later call may be about something that `poll` has not seen
        // A drain thread may begin to wait for a number at any time, so kRecords must stay.
        if (Awaited arrived = Awaited::kArrived;
            !header.bell.awaited.compare_exchange_strong(arrived, Awaited::kNothing) && arrived == Awaited::kRecords)
            order_.forget_numbers_of_the_dead();
        const bool room_wanted = header.bell.wants_room.load() > 0;
        seen = log_.arrived();
        const std::optional<milliseconds> next = poll(room_wanted);
        due = next ? std::optional(steady_clock::now() + *next) : std::nullopt;
        // A participant that waits for room rings again after a release. Until then this thread may rest.
        if (room_wanted)
            io::wait_while({header.bell.doorbell, header.bell.doorbell.load()}, {calls_, called},
                           time_until(due, kLivenessInterval));
    }
}

void Group::stop_listening() noexcept {
    order_.note_others_stopped();
    if (!listener_.joinable()) return;
    listener_.request_stop();
    call_listener();
    listener_.join();
}

}   // namespace forebay::group
