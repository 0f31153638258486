// The end of a group: the participants finish the file together, or each on its own.
// A program closes the file collectively, or its processes end without a close. In the second case each participant
// publishes its phase, and the drainer waits for the others.
// Thread-safety: any thread may make any call. Blocking: `wait_until_finished` and `await`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "group/participants.h"

namespace forebay::group {

class Ending {
  public:
    explicit Ending(Participants& participants) noexcept : participants_(participants) {}

    // For the drainer: it has finished with the file; ends the others' waits. Ok: the target has the complete file.
    void finished(const Status& outcome = Status::ok()) noexcept;
    // For the others: waits until the drainer has finished. kUnavailable: it died, or needs longer than `at_most`.
    [[nodiscard]] Status wait_until_finished(std::optional<std::chrono::milliseconds> at_most = std::nullopt);
    // Returns why the target lacks bytes of the file, or ok. Call it after the drainer has finished.
    [[nodiscard]] Status outcome() const;

    // The phase of a participant that ends without a close: it has written its records, or given its log back. The last
    // phase means that it could not write all, and its log stays: the file must stay at its last commit. Stored in
    // BoardRow::wants_room, whose value 1 means that a writer waits for room.
    enum class Phase : std::uint64_t { kWritten = 2, kLogGivenBack = 3, kIncomplete = 4 };
    void publish(Phase phase) noexcept;
    // Waits until all other live participants have reached `phase`. kUnavailable: one has not within `at_most`.
    [[nodiscard]] Status await(Phase phase, std::optional<std::chrono::milliseconds> at_most);
    // Returns a failure that names another participant in phase kIncomplete, or ok. Call it after `await`.
    [[nodiscard]] Status incomplete() const;
    // Returns true if all other participants have reached `phase` and the board is not lost.
    [[nodiscard]] bool all_came_to(Phase phase) const noexcept;

  private:
    [[nodiscard]] bool came_to(std::uint64_t participant, Phase phase) const noexcept;
    Participants& participants_;
};

}   // namespace forebay::group
