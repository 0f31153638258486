// Joins the caches of several nodes, and ends the windows that do so.
// The collective open makes the windows. Their end is collective too and blocks, but a close after reading does not:
// ranks may close files in different orders, and one may compute for long before it closes. So `leave` only notes the
// end. Windows that all their ranks have left end in the next open by the same ranks, or with MPI. A callback of
// MPI_COMM_SELF ends them, in their order of making, equal on all ranks.
#pragma once

#include "file/mpi_adapter.h"

namespace forebay::mpi {

[[nodiscard]] std::shared_ptr<cache::Peers> join_peers(file::Team& team, const void* communicator,
                                                       const file::PeersWanted& wanted) noexcept;

}   // namespace forebay::mpi
