// The Slurm batch job of a process. Several jobs of a user may run on one node. A command in a job, or in its epilog,
// waits for the processes of its own job only.
#pragma once

#include <string>

#include "area/process.h"

namespace forebay::cli {

// The job of this command (SLURM_JOB_ID). Empty if it runs in none.
[[nodiscard]] std::string own_job();

// Returns true if a living process belongs to the job, by its environment or its control group. Returns true also if
// /proc gives no answer, as in another PID namespace. Reads /proc, with the rights of the caller.
[[nodiscard]] bool belongs_to_job(const area::ProcessIdentity& process, const std::string& job);

}   // namespace forebay::cli
