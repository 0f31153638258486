// Joining the caches of several nodes: who takes part, and the windows' lives.
//
// Windows are made in the collective open. Their end is collective too, and blocks, but closing a file that is open
// for reading does not: ranks may close files in different orders, and one may compute for long before it does. So
// `leave` only takes note. Windows that all of their ranks have left end in the next open by the same ranks, or with
// MPI (a callback of MPI_COMM_SELF, in the order in which they were made, which is the same everywhere).
#pragma once

#include "file/mpi_adapter.h"

namespace forebay::mpi {

// See file::MpiAdapter.
[[nodiscard]] std::shared_ptr<cache::Peers> join_peers(file::Team& team, const void* communicator,
                                                       const file::PeersWanted& wanted) noexcept;

}   // namespace forebay::mpi
