// The interface of the library that makes teams over MPI: libforebay_mpi_<implementation>.so (src/mpi).
//
// It stands in this room because both sides know it: the plugin (src/hdf5) and the library. The plugin
// links no MPI. It loads the library that belongs to the MPI of the process, once a file is
// opened with an mpio access list, and finds `forebay_mpi_adapter` in it. MPI handles pass as bytes: their
// type differs between implementations. Nothing here initialises MPI or calls it from another thread.
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

// The processes of a communicator as ranks of MPI_COMM_WORLD; -1: one that is not in it.
struct Membership {
    std::vector<int> ranks;
    int own = -1;
};

// What a rank brings to the reading of other nodes' caches.
struct PeersWanted {
    std::shared_ptr<cache::CachedFile> file;   // open for reading; null: it is not read through the cache here
    bool leads = false;                        // no rank below this one is on the same node
    std::string node;
};

struct MpiAdapter {
    std::uint32_t version = 0;            // kMpiAdapterVersion of the build
    std::size_t communicator_bytes = 0;   // sizeof(MPI_Comm)
    std::size_t info_bytes = 0;           // sizeof(MPI_Info)
    // The processes of a communicator, which this takes over and frees with the team. Its errors are
    // returned, not fatal, from then on.
    Result<std::shared_ptr<Team>> (*make_team)(const void* communicator) = nullptr;
    // Makes an info object without hints of a null handle: an open file has one, as with MPI-IO.
    void (*complete_info)(void* info) = nullptr;
    // A null handle is let be, and everything once MPI has ended.
    void (*free_info)(void* info) = nullptr;
    // Local: no other process needs to do anything. The communicator stays the caller's.
    Result<Membership> (*members)(const void* communicator) = nullptr;
    // Collective, of ranks of several nodes that have opened a file for reading. The communicator is the team's. Null
    // on all of them: some do not read it through the cache, have another version of it, or memory is short. The
    // calling thread is the one that may ask the peers.
    std::shared_ptr<cache::Peers> (*join_peers)(Team& team, const void* communicator,
                                                const PeersWanted& wanted) noexcept = nullptr;
};

inline constexpr std::uint32_t kMpiAdapterVersion = 6;
inline constexpr const char* kMpiAdapterSymbol = "forebay_mpi_adapter";
// The address of a function of the program's MPI; null: it has none.
using FindMpiFunction = void* (*)(const char* name);
// Null: a function that the adapter wants is not there, or not the one that it was linked with.
using MpiAdapterFunction = const MpiAdapter* (*)(FindMpiFunction find);

}   // namespace forebay::file
