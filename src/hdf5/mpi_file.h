// One open of a file by the ranks of a communicator: what HDF5 holds a pointer to, from the driver's `open` to its `close`.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "hdf5/host.h"
#include "hdf5/mpi_library.h"
#include "io/claim.h"
#include "node/shared_file.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

inline constexpr haddr_t kMpiMaxAddress = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

struct MpiFile {
    H5FD_t library{};                  // HDF5's part; must be first
    unsigned char reserve[64] = {};    // for members that a newer HDF5 has added to it

    explicit MpiFile(MpiHandles&& taken) : handles(std::move(taken)) {}
    ~MpiFile() {
        if (descriptor >= 0)
            ::close(descriptor);
    }

    MpiHandles handles;
    std::shared_ptr<node::Team> team;
    bool leads = false;                              // the lowest rank of its node, which drains for it
    std::unique_ptr<io::Claim> claim;                // until the shared file has it
    bool unclaimed = false;                          // it cannot be known whether others write the file
    std::string path;
    int descriptor = -1;
    dev_t device = 0;
    ino_t inode = 0;
    std::shared_ptr<node::SharedFile> shared;              // null: read-only
    std::shared_ptr<stage::Engine> engine;           // of a read-only file
    std::shared_ptr<stage::StagedFile> read_only;
    haddr_t end_allocated = 0, end_of_file = 0;
    haddr_t last_end_allocated = HADDR_UNDEF;        // at the last truncate
    bool truncated = true;                           // the last truncate has succeeded, on all ranks
};

}   // namespace forebay::hdf5
