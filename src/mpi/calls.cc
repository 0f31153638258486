#include "mpi/calls.h"

namespace forebay::mpi {

#ifdef FOREBAY_MPI_IS_FOUND

Calls calls;

bool find_calls(file::FindMpiFunction find) noexcept {
    Calls found;
#define FOREBAY_MPI_FIND(name)                                               \
    found.name = reinterpret_cast<decltype(found.name)>(find("MPI_" #name)); \
    if (found.name == nullptr) return false;
    FOREBAY_MPI_FUNCTIONS(FOREBAY_MPI_FIND)
#undef FOREBAY_MPI_FIND
    calls = found;
    return true;
}

#else

// The linker has found the functions, but maybe in another copy of this MPI than the program's.
bool find_calls(file::FindMpiFunction find) noexcept {
    return find("MPI_Comm_rank") == reinterpret_cast<void*>(&MPI_Comm_rank);
}

#endif

}   // namespace forebay::mpi
