// One open of a file by the ranks of a communicator: what HDF5 holds a pointer to, from the driver's `open` to its
// `close`.
#pragma once

#include <memory>
#include <utility>

#include "cache/cached_file.h"
#include "cache/peers.h"
#include "hdf5/driver/driver_base.h"
#include "hdf5/host/mpi_library.h"
#include "io/claim.h"
#include "io/made_file.h"

namespace forebay::hdf5 {

struct MpiFile : DriverFile {
    explicit MpiFile(MpiHandles&& taken) : handles(std::move(taken)) { open->with_mpi = true; }

    MpiHandles handles;
    std::shared_ptr<file::Team> team;
    bool leads = false;                          // the lowest rank of its node, which drains for it
    bool several_nodes = false;                  // the team's
    std::shared_ptr<cache::CachedFile> cached;   // what it is read through, if that is the read cache
    std::shared_ptr<cache::Peers> peers;         // what other nodes have of it; until the close
    std::unique_ptr<io::Claim> claim;            // until the shared file has it
    io::MadeFile made;                           // by this rank, unless the open succeeds
    std::unique_ptr<io::File> forwarded;         // until it is attached: the file by way of a staging server
    haddr_t last_end_allocated = HADDR_UNDEF;    // at the last truncate
    bool truncated = true;                       // the last truncate has succeeded, on all ranks
};

}   // namespace forebay::hdf5
