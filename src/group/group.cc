#include "group/group.h"

#include <optional>
#include <string>
#include <system_error>

#include "base/background_thread.h"
#include "group/liveness.h"

namespace forebay::group {

void Group::add_log(std::unique_ptr<io::File> pool, std::uint64_t segment_bytes) {
    logs_.push_back(std::make_unique<LogFollower>(participants_.board(), logs_.size(), std::move(pool), segment_bytes));
}

Status Group::listen(std::function<void(bool)> poll) {
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

void Group::serve(const std::stop_token& stop, const std::function<void(bool)>& poll) {
    BoardHeader& header = participants_.header();
    while (!stop.stop_requested()) {
        const std::uint32_t rung = header.bell.doorbell.load();
        header.bell.listening.store(1);
        if (!log_.is_worth_following() && !stop.stop_requested()) {
            const bool waits = header.bell.awaited.load() == Awaited::kRecords;
            // After a loss of the board, only `ends_` wakes this thread.
            io::wait_while({header.bell.doorbell, rung}, {ends_, 0},
                           waits ? std::optional(kLivenessInterval) : std::nullopt);
        }
        header.bell.listening.store(0);
        if (stop.stop_requested()) return;
        if (header.bell.awaited.load() == Awaited::kRecords) order_.forget_numbers_of_the_dead();
        else header.bell.awaited.store(Awaited::kNothing);
        const bool room_wanted = header.bell.wants_room.load() > 0;
        poll(room_wanted);
        // A participant that waits for room rings again after a release. Until then this thread may rest.
        if (room_wanted)
            io::wait_while({header.bell.doorbell, header.bell.doorbell.load()}, {ends_, 0}, kLivenessInterval);
    }
}

void Group::stop_listening() noexcept {
    order_.note_others_stopped();
    if (!listener_.joinable()) return;
    listener_.request_stop();
    io::raise_and_wake(ends_);
    listener_.join();
}

}   // namespace forebay::group
