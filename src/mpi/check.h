// Turns the result of an MPI function into a Status. The parameter `what` is the function's name.
#pragma once

#include "base/status.h"

namespace forebay::mpi {

[[nodiscard]] Status check(int result, const char* what);

}   // namespace forebay::mpi
