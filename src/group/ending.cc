#include "group/ending.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "group/liveness.h"

namespace forebay::group {

namespace {

// Values of BoardHeader::finished.
constexpr std::uint32_t kFinished = 1, kFinishedWithFailure = 2;

}   // namespace

void Ending::finished(const Status& outcome) noexcept {
    participants_.header().finished.store(outcome ? kFinished : kFinishedWithFailure);
    io::raise_and_wake(participants_.header().progress);
}

Status Ending::wait_until_finished(std::optional<std::chrono::milliseconds> at_most) {
    BoardHeader& header = participants_.header();
    const std::uint64_t drainer = participants_.setup().drainer;
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        if (at_most && std::chrono::steady_clock::now() - begin > *at_most && header.finished.load() == 0)
            return {Code::kUnavailable, fmt::format("process {}, which drains for this node, has not come to its end",
                                                    participants_.setup().processes[drainer].pid)};
        const std::uint32_t progress = header.progress.load();
        if (header.finished.load() != 0) return Status::ok();
        io::wait_while(header.progress, progress, kLivenessInterval);
        if (header.finished.load() != 0) return Status::ok();
        // A store to this page shows if it is lost: the drainer could then not store to it either.
        header.progress.fetch_add(0);
        FOREBAY_TRY(participants_.lost());
        if (!participants_.is_alive(drainer)) return participants_.drainer_gone();
    }
}

Status Ending::outcome() const {
    const BoardHeader& header = participants_.header();
    if (header.finished.load() == kFinished) return Status::ok();
    const auto error = static_cast<int>(header.failed.load());
    const Participants::Setup& setup = participants_.setup();
    return Status::from_errno(error != 0 ? error : EIO,
                              fmt::format("process {}, which drains for this node, could not write all of the file",
                                          setup.processes[setup.drainer].pid));
}

void Ending::publish(Phase phase) noexcept {
    participants_.own_row().wants_room.store(static_cast<std::uint64_t>(phase), std::memory_order_release);
    io::raise_and_wake(participants_.header().bell.doorbell);
}

bool Ending::came_to(std::uint64_t participant, Phase phase) const noexcept {
    return participant == participants_.setup().self ||
           participants_.row(participant).wants_room.load(std::memory_order_acquire) >=
               static_cast<std::uint64_t>(phase);
}

Status Ending::incomplete() const {
    for (std::uint64_t i = 0; i < participants_.count(); ++i)
        if (came_to(i, Phase::kIncomplete) && i != participants_.setup().self)
            return {Code::kUnavailable, fmt::format("process {}, which has it open as well, could not write all of it",
                                                    participants_.setup().processes[i].pid)};
    return Status::ok();
}

bool Ending::all_came_to(Phase phase) const noexcept {
    for (std::uint64_t i = 0; i < participants_.count(); ++i)
        if (!came_to(i, phase)) return false;
    return participants_.lost().is_ok();
}

Status Ending::await(Phase phase, std::optional<std::chrono::milliseconds> at_most) {
    BoardHeader& header = participants_.header();
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
        const std::uint32_t rung = header.bell.doorbell.load();
        std::uint64_t going_on = 0;   // the pid of a live participant that has not reached `phase`
        for (std::uint64_t i = 0; i < participants_.count(); ++i)
            if (!came_to(i, phase) && participants_.is_alive(i)) going_on = participants_.setup().processes[i].pid;
        FOREBAY_TRY(participants_.lost());
        if (going_on == 0) return Status::ok();
        auto turn = kLivenessInterval;
        if (at_most) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(begin + *at_most -
                                                                           std::chrono::steady_clock::now());
            if (left.count() <= 0)
                return {Code::kUnavailable, fmt::format("process {}, which has it open as well, goes on", going_on)};
            turn = std::min(left, turn);
        }
        io::wait_while(header.bell.doorbell, rung, turn);
    }
}

}   // namespace forebay::group
