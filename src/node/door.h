// The door of the library that makes teams over MPI: libforebay_mpi_<implementation>.so (src/mpi).
//
// It stands in this room because both sides know it: the plugin (src/hdf5) and the library. The plugin
// links no MPI. It loads the library that belongs to the MPI of the process, once a file is
// opened with an mpio access list, and finds `forebay_mpi_door` in it. MPI handles pass as bytes: their
// type differs between implementations. Nothing here initialises MPI or calls it from another thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "node/team.h"

namespace forebay::node {

// The processes of a communicator as ranks of MPI_COMM_WORLD; -1: one that is not in it.
struct Membership {
    std::vector<int> ranks;
    int own = -1;
};

struct Door {
    std::uint32_t version = 0;            // kDoorVersion of the build
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
};

inline constexpr std::uint32_t kDoorVersion = 4;
inline constexpr const char* kDoorSymbol = "forebay_mpi_door";
using DoorFunction = const Door* (*)();

}   // namespace forebay::node
