// One process's part in a file that several processes of the node write together.
//
// Each process, a participant, appends to a log of its own. One of them, the drainer, follows the logs of all and
// writes the target; the others build no index until they read. The board, which all have mapped, and the logs connect
// them: a record is visible to all as soon as its segment's tail covers it.
//
//   order()     sequence numbers, and the records that other participants have appended
//   log()       this participant's own log, and waiting for room in it
//   release()   the drainer: which segments of all logs are free, and what makes that certain on the devices
//   target()    what the participants tell each other of the target: commits, pace, failures
//   ending()    how they come to the end together
//
// The drainer also has a listener thread. It sleeps on the board's doorbell in the kernel, and then has the file look
// at the new records.
//
// Ownership: the board and the followers. Thread-safety: `add_log` before any other call, `listen` and
// `stop_listening` from one thread; else as the parts say.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/status.h"
#include "group/ending.h"
#include "group/log_release.h"
#include "group/own_log.h"
#include "group/participants.h"
#include "group/record_order.h"
#include "group/shared_target.h"
#include "io/file.h"
#include "io/futex.h"

namespace forebay::group {

class Group {
  public:
    using Setup = Participants::Setup;
    explicit Group(Setup setup) : participants_(std::move(setup)) {}
    ~Group() { stop_listening(); }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    // The log of the next participant. `pool` null: this process does not read it.
    void add_log(std::unique_ptr<io::File> pool, std::uint64_t segment_bytes);
    // Starts the drainer's listener, whose thread calls `poll(room_wanted)`. kUnavailable: no thread.
    [[nodiscard]] Status listen(std::function<void(bool room_wanted)> poll);
    void stop_listening() noexcept;

    [[nodiscard]] RecordOrder& order() noexcept { return order_; }
    [[nodiscard]] OwnLog& log() noexcept { return log_; }
    [[nodiscard]] LogRelease& release() noexcept { return release_; }
    [[nodiscard]] SharedTarget& target() noexcept { return target_; }
    [[nodiscard]] Ending& ending() noexcept { return ending_; }

    [[nodiscard]] bool drains() const noexcept { return participants_.drains(); }
    [[nodiscard]] std::uint64_t participants() const noexcept { return participants_.count(); }
    // As Participants::lost.
    [[nodiscard]] const Status& lost() const noexcept { return participants_.lost(); }
    // A marker was appended, between two barriers of all participants.
    void marked() noexcept { participants_.header().epoch.fetch_add(1, std::memory_order_acq_rel); }
    // What other nodes may read of the drainer's board.
    [[nodiscard]] Exposed& exposed() const noexcept { return participants_.header().exposed; }

  private:
    void serve(const std::stop_token& stop, const std::function<void(bool)>& poll);

    Participants participants_;
    LogFollowers logs_;
    RecordOrder order_{participants_, logs_};
    OwnLog log_{participants_};
    LogRelease release_{participants_, logs_, order_};
    SharedTarget target_{participants_};
    Ending ending_{participants_};
    io::SharedWord ends_{0};   // raised to end the listener
    std::jthread listener_;    // last: ends first
};

}   // namespace forebay::group
