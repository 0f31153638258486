#include "group/participants.h"

#include <fmt/format.h>

#include "base/attempt.h"

namespace forebay::group {

Participants::Participants(Setup setup) : setup_(std::move(setup)) {
    if (!drains() || setup_.processes.empty()) return;
    header().team = setup_.team;
    header().nodes = setup_.nodes;
    header().boot_id = setup_.processes.front().boot_id;
    for (std::uint64_t i = 0; i < count(); ++i) {
        row(i).pid.store(setup_.processes[i].pid, std::memory_order_relaxed);
        row(i).start_ticks.store(setup_.processes[i].start_ticks, std::memory_order_relaxed);
    }
}

bool Participants::is_alive(std::uint64_t participant) const noexcept {
    if (participant < setup_.directories.size())
        return area::life_at(setup_.directories[participant]) != area::Life::kEnded;
    bool seen = true;
    (void)attempt([&] { seen = area::is_seen_running(setup_.processes[participant]); });
    return seen;
}

bool Participants::lacks_room() const noexcept {
    std::uint32_t served = 0;
    for (std::uint64_t i = 0; i < count(); ++i) {
        const std::uint64_t before = row(i).released_before_wait.load();
        if (before != 0 && row(i).released.load() + 1 != before) ++served;
    }
    return header().bell.wants_room.load() > served;
}

Status Participants::drainer_gone() const {
    if (const int error = static_cast<int>(header().failed.load()); error != 0 && header().bypass.load() == Bypass::kNo)
        return Status::from_errno(error, "the process that drains for this node cannot write the file");
    if (is_alive(setup_.drainer)) return Status::ok();
    return {Code::kUnavailable,
            fmt::format("process {}, which drains for this node, has died; what was staged stays in the logs",
                        setup_.processes[setup_.drainer].pid)};
}

}   // namespace forebay::group
