// Notices that many processes would print alike: the ranks of one job, or the jobs of a user who copies a line from a
// document. The first process with a notice tells the others by a file (area/told.h).
// Thread-safety: any thread. Blocks on reading /proc, and on metadata of a local file system.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/options.h"

namespace forebay::hdf5 {

enum class Audience : std::uint8_t {
    kUser,
    kJob,   // told once in each job, by a rank of the node of rank 0
    kNode   // told once on each node of a job
};

// Like warn_once, unless another process has printed the notice. A process that is no rank is a job of its own.
void tell(const Options& options, std::string_view message, Audience audience) noexcept;

}   // namespace forebay::hdf5
