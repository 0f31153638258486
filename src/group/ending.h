// The end of a group: how the participants come to it together, or each as it can.
//
// A program closes the file collectively, or its processes end without having closed it. In that case each participant
// publishes how far it has come, and the drainer waits for the others.
//
// Thread-safety: any thread may make any call. Blocking: `wait_until_finished` and `await_ends`.
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

    // The drainer has finished with the file: no participant need wait for it any more. `outcome`: whether the target
    // has all of the file.
    void finished(const Status& outcome = Status::ok()) noexcept;
    // For the others: waits until the drainer has finished. kUnavailable: it has died, or takes longer than `at_most`.
    [[nodiscard]] Status wait_until_finished(std::optional<std::chrono::milliseconds> at_most = std::nullopt);
    // Once the drainer has finished: why the target does not have all of the file, or ok.
    [[nodiscard]] Status outcome() const;

    // How far a participant that ends without a close has come; in BoardRow::wants_room.
    enum class Phase : std::uint64_t { kWritten = 2, kGivenBack = 3 };
    void publish(Phase phase) noexcept;
    // Returns once all other live participants have reached `phase`. kUnavailable: one has not within `at_most`.
    [[nodiscard]] Status await(Phase phase, std::optional<std::chrono::milliseconds> at_most);
    // All other participants have reached `phase`; none has died before it.
    [[nodiscard]] bool all_came_to(Phase phase) const noexcept;

  private:
    [[nodiscard]] bool came_to(std::uint64_t participant, Phase phase) const noexcept;
    Participants& participants_;
};

}   // namespace forebay::group
