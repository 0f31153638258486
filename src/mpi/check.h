// What MPI's functions return, as a Status.
#pragma once

#include "base/status.h"

namespace forebay::mpi {

[[nodiscard]] Status check(int result, const char* what);

}   // namespace forebay::mpi
