// One open of a file by the ranks of a communicator. HDF5 points to it from the driver's `open` to its `close`.
#pragma once

#include <memory>
#include <optional>
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
    bool leads = false;   // the lowest rank of its node, which drains for the node
    bool several_nodes = false;
    std::shared_ptr<cache::CachedFile> cached;   // null if reads bypass the cache
    std::shared_ptr<cache::Peers> peers;         // other nodes' caches; null after the close
    std::shared_ptr<io::Claim> claim;            // keeps other groups of the node out; moved to `SharedFile::hold`
    io::MadeFile made;                           // removes the file that this rank created if the open fails
    std::optional<stage::OpenTarget> target;     // perhaps forwarded to a staging server; empty once it is attached
    haddr_t last_end_allocated = HADDR_UNDEF;    // at the last successful truncate
    bool truncated = true;                       // the last truncate succeeded on all ranks
};

}   // namespace forebay::hdf5
