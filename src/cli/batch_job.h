// The batch job of Slurm that a process belongs to. Several jobs of a user may run on one node: a command that runs in
// a job, or in its epilog, waits for the processes of that job only.
#pragma once

#include <string>

#include "area/process.h"

namespace forebay::cli {

// The job of this command (SLURM_JOB_ID); empty: it runs in none.
[[nodiscard]] std::string own_job();

// Whether a living process belongs to the job, by its environment or its control group. True also if /proc does not
// tell, as in another PID namespace. Reads /proc, with the rights of the caller.
[[nodiscard]] bool belongs_to_job(const area::ProcessIdentity& process, const std::string& job);

}   // namespace forebay::cli
