// The MPI functions that this room calls. The room includes this header instead of mpi.h. Every MPI of MPICH's binary
// interface (MPICH, Intel MPI, Cray MPICH, MVAPICH) has the same functions and constants, in a library of its own name:
// libmpi.so.12, libmpich.so.12 and others. So one adapter, linked with none of them, serves them all and never brings a
// second MPI into the process. It calls the addresses that the plugin finds in the program's MPI. Open MPI's constants
// are variables of its library, libmpi.so.40 since version 3, so its adapter links to it. Thread-safety: `find_calls`
// runs once, before the first call.
#pragma once

#include <mpi.h>

#include "file/mpi_adapter.h"

namespace forebay::mpi {

// Returns false if a function is missing, or if the linker has found those of another MPI.
[[nodiscard]] bool find_calls(file::FindMpiFunction find) noexcept;

}   // namespace forebay::mpi

#ifdef FOREBAY_MPI_IS_FOUND

// clang-format off
#define FOREBAY_MPI_FUNCTIONS(X) \
    X(Allgather) X(Allgatherv) X(Allreduce) X(Barrier) X(Bcast) X(Comm_create_keyval) X(Comm_free) X(Comm_group) \
    X(Comm_rank) X(Comm_set_attr) X(Comm_set_errhandler) X(Comm_size) X(Error_string) X(Finalized) X(Get) \
    X(Group_free) X(Group_rank) X(Group_size) X(Group_translate_ranks) X(Info_create) X(Info_free) X(Initialized) \
    X(Iprobe) X(Raccumulate) X(Rget) X(Rget_accumulate) X(Testall) X(Waitall) X(Win_allocate) X(Win_create) \
    X(Win_flush) X(Win_free) X(Win_get_attr) X(Win_lock_all) X(Win_set_errhandler) X(Win_sync) X(Win_unlock_all)
// clang-format on

namespace forebay::mpi {

struct Calls {
#define FOREBAY_MPI_MEMBER(name) decltype(&::MPI_##name) name = nullptr;
    FOREBAY_MPI_FUNCTIONS(FOREBAY_MPI_MEMBER)
#undef FOREBAY_MPI_MEMBER
};
extern Calls calls;

}   // namespace forebay::mpi

// A function that is missing here does not link.
#define MPI_Allgather forebay::mpi::calls.Allgather
#define MPI_Allgatherv forebay::mpi::calls.Allgatherv
#define MPI_Allreduce forebay::mpi::calls.Allreduce
#define MPI_Barrier forebay::mpi::calls.Barrier
#define MPI_Bcast forebay::mpi::calls.Bcast
#define MPI_Comm_create_keyval forebay::mpi::calls.Comm_create_keyval
#define MPI_Comm_free forebay::mpi::calls.Comm_free
#define MPI_Comm_group forebay::mpi::calls.Comm_group
#define MPI_Comm_rank forebay::mpi::calls.Comm_rank
#define MPI_Comm_set_attr forebay::mpi::calls.Comm_set_attr
#define MPI_Comm_set_errhandler forebay::mpi::calls.Comm_set_errhandler
#define MPI_Comm_size forebay::mpi::calls.Comm_size
#define MPI_Error_string forebay::mpi::calls.Error_string
#define MPI_Finalized forebay::mpi::calls.Finalized
#define MPI_Get forebay::mpi::calls.Get
#define MPI_Group_free forebay::mpi::calls.Group_free
#define MPI_Group_rank forebay::mpi::calls.Group_rank
#define MPI_Group_size forebay::mpi::calls.Group_size
#define MPI_Group_translate_ranks forebay::mpi::calls.Group_translate_ranks
#define MPI_Info_create forebay::mpi::calls.Info_create
#define MPI_Info_free forebay::mpi::calls.Info_free
#define MPI_Initialized forebay::mpi::calls.Initialized
#define MPI_Iprobe forebay::mpi::calls.Iprobe
#define MPI_Raccumulate forebay::mpi::calls.Raccumulate
#define MPI_Rget forebay::mpi::calls.Rget
#define MPI_Rget_accumulate forebay::mpi::calls.Rget_accumulate
#define MPI_Testall forebay::mpi::calls.Testall
#define MPI_Waitall forebay::mpi::calls.Waitall
#define MPI_Win_allocate forebay::mpi::calls.Win_allocate
#define MPI_Win_create forebay::mpi::calls.Win_create
#define MPI_Win_flush forebay::mpi::calls.Win_flush
#define MPI_Win_free forebay::mpi::calls.Win_free
#define MPI_Win_get_attr forebay::mpi::calls.Win_get_attr
#define MPI_Win_lock_all forebay::mpi::calls.Win_lock_all
#define MPI_Win_set_errhandler forebay::mpi::calls.Win_set_errhandler
#define MPI_Win_sync forebay::mpi::calls.Win_sync
#define MPI_Win_unlock_all forebay::mpi::calls.Win_unlock_all

#endif
