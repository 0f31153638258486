// The interface of the library that makes teams over MPI: libforebay_mpi_<implementation>.so (src/mpi). Both the plugin
// (src/hdf5), which links no MPI, and the library include it. When a file is opened with an mpio access list, the
// plugin loads the library for the process's MPI and finds `forebay_mpi_adapter` in it. MPI handles pass as bytes, as
// their type differs between implementations. The library does not initialise MPI, and calls it in the caller's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/cached_file.h"
#include "cache/peers.h"
#include "file/team.h"

namespace forebay::file {

// The ranks in MPI_COMM_WORLD of a communicator's processes, and of the caller (`own`). -1: not in MPI_COMM_WORLD.
struct Membership {
    std::vector<int> ranks;
    int own = -1;
};

// One rank's part in the reading of other nodes' caches.
struct PeersWanted {
    std::shared_ptr<cache::CachedFile> file;   // open for reading; null: this rank reads past the cache
    bool leads = false;                        // this is the lowest rank of its node
    std::string node;
};

struct MpiAdapter {
    std::uint32_t version = 0;            // kMpiAdapterVersion of the build
    std::size_t communicator_bytes = 0;   // sizeof(MPI_Comm)
    std::size_t info_bytes = 0;           // sizeof(MPI_Info)
    // Makes a team, which owns the communicator, of its processes. MPI errors on it are no longer fatal.
    Result<std::shared_ptr<Team>> (*make_team)(const void* communicator) = nullptr;
    // Replaces a null handle by an info object without hints: an open file of MPI-IO never has a null one.
    void (*complete_info)(void* info) = nullptr;
    // Ignores a null handle, and every handle after MPI has ended.
    void (*free_info)(void* info) = nullptr;
    // Local: no other process needs to call it. The caller keeps the communicator.
    Result<Membership> (*members)(const void* communicator) = nullptr;
    // Collective over ranks of several nodes that have opened a file for reading, in the team's communicator. Null on
    // all ranks: one reads past the cache, has another version, or lacks memory. Only the calling thread may ask peers.
    std::shared_ptr<cache::Peers> (*join_peers)(Team& team, const void* communicator,
                                                const PeersWanted& wanted) noexcept = nullptr;
};

inline constexpr std::uint32_t kMpiAdapterVersion = 6;
inline constexpr const char* kMpiAdapterSymbol = "forebay_mpi_adapter";
// Returns the address of a function of the program's MPI, or null if that MPI lacks the function.
using FindMpiFunction = void* (*)(const char* name);
// Returns null if the program's MPI lacks a function that the adapter calls, or has another one than the adapter's.
using MpiAdapterFunction = const MpiAdapter* (*)(FindMpiFunction find);

}   // namespace forebay::file
