// The role of one process in a file that several processes of the node write together.
// Each process, a participant, appends to a log of its own. One of them, the drainer, follows the logs of all and
// writes the target; the others build no index until they read. The board, which all map, and the logs connect them:
// all participants see a record as soon as its segment's tail covers it.
//   order()     sequence numbers, and the records that other participants have appended
//   log()       this participant's own log, and waiting for room in it
//   release()   for the drainer: the free segments of all logs, and the syncs that make them safe to free
//   target()    facts about the target that the participants share: commits, pace, failures
//   ending()    the end of the file
// The drainer also has a listener thread. The thread sleeps in the kernel, and then calls the file's `poll`. It wakes
// by the board's doorbell, by `call_listener`, or at the time that the last `poll` gave. Invariant: the listener sleeps
// without a limit only if an event ends each wait of the drain. It checks that the participants live while the drain
// waits for a drawn number, and `poll` tells it when the next attempt of a drain is due. Invariant: it calls `poll`
// again only after an event, or at that time, even if `poll` has left records. Ownership: the group owns the board and
// the followers. Thread-safety: call `add_log` before any other call, and `listen` and `stop_listening` from
// one thread. The headers of these five objects document the rest.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

    // Adds the log of the next participant. `pool` is the file of its segments; null if this process does not read it.
    void add_log(std::unique_ptr<io::File> pool, std::uint64_t segment_bytes);
    // Returns the time after which to call again; none: an event will tell.
    using Poll = std::function<std::optional<std::chrono::milliseconds>(bool room_wanted)>;
    // Starts the drainer's listener, whose thread calls `poll`. kUnavailable: the thread did not start.
    [[nodiscard]] Status listen(Poll poll);
    void stop_listening() noexcept;
    // Has the listener of this process, if there is one, call `poll` now. Any thread may call it. Does not block.
    void call_listener() noexcept { io::raise_and_wake(calls_); }

    [[nodiscard]] RecordOrder& order() noexcept { return order_; }
    [[nodiscard]] OwnLog& log() noexcept { return log_; }
    [[nodiscard]] LogRelease& release() noexcept { return release_; }
    [[nodiscard]] SharedTarget& target() noexcept { return target_; }
    [[nodiscard]] Ending& ending() noexcept { return ending_; }

    [[nodiscard]] bool drains() const noexcept { return participants_.drains(); }
    [[nodiscard]] std::uint64_t participants() const noexcept { return participants_.count(); }
    // Returns an error if this process has lost the board (group/participants.h).
    [[nodiscard]] const Status& lost() const noexcept { return participants_.lost(); }
    [[nodiscard]] bool lacks_room() const noexcept { return participants_.lacks_room(); }
    // Raises the epoch, the board's count of markers (group/board.h). A participant calls it after it appended a
    // marker, between two barriers of all participants.
    void marked() noexcept { participants_.header().epoch.fetch_add(1, std::memory_order_acq_rel); }
    // The part of the drainer's board that other nodes may read.
    [[nodiscard]] Exposed& exposed() const noexcept { return participants_.header().exposed; }

  private:
    void serve(const std::stop_token& stop, const Poll& poll);

    Participants participants_;
    LogFollowers logs_;
    RecordOrder order_{participants_, logs_};
    OwnLog log_{participants_};
    LogRelease release_{participants_, logs_, order_};
    SharedTarget target_{participants_};
    Ending ending_{participants_};
    io::SharedWord calls_{0};   // raised to wake the listener from this process
    std::jthread listener_;     // last member: ends first
};

}   // namespace forebay::group
