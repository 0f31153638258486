// The Slurm batch job of a process. A command in a job, or in its epilog, waits for no other job's processes.
#pragma once

#include <string>

#include "area/process.h"

namespace forebay::cli {

// SLURM_JOB_ID; empty if this command runs in no job.
[[nodiscard]] std::string own_job();

// Returns true if a living process belongs to the job, by its environment or its control group. Returns true also if
// /proc gives no answer, as in another PID namespace. Reads /proc, with the rights of the caller.
[[nodiscard]] bool belongs_to_job(const area::ProcessIdentity& process, const std::string& job);

}   // namespace forebay::cli
