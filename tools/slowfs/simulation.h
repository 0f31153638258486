// The simulation: it slows and fails the mount's operations, and counts them. Without FUSE.
#pragma once

#include <atomic>

#include "caller.h"
#include "fault_rules.h"
#include "hang_gate.h"
#include "lateness.h"
#include "statistics.h"
#include "throttle.h"

namespace forebay::slowfs {

struct Simulation {
    Throttle throttle;
    Lateness lateness;
    Callers callers;
    FaultRules faults;
    HangGate hangs;
    Statistics statistics;
    std::atomic<bool> stopping{false};

    void stop() {
        stopping = true;
        hangs.stop();
    }
};

}   // namespace forebay::slowfs
