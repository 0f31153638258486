// Turns the result of an MPI function into a Status. The parameter `what` is the function's name.
#pragma once

#include "base/status.h"
#include "mpi/calls.h"

namespace forebay::mpi {

[[nodiscard]] Status check(int result, const char* what);

// kUnsupported: the window's memory is a copy, in which stores by other processes do not show.
[[nodiscard]] Status check_unified(MPI_Win window);

}   // namespace forebay::mpi
