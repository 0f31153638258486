// The library that belongs to the MPI of this process (src/mpi), loaded when it is first needed.
//
// The MPI is the one that the host's libhdf5 was built with, found by its own answer to
// MPI_Get_library_version. The library lies beside the plugin, in the build tree and when installed.
// Thread-safety: all calls from any thread; loading happens once. Never initialises MPI.
#pragma once

#include <memory>

#include "hdf5/host.h"
#include "node/door.h"

namespace forebay::hdf5 {

// The door of src/mpi. kUnsupported: an unknown MPI, or a host without one; kNotFound: there is no
// library for this MPI; kUnavailable: it cannot be loaded.
[[nodiscard]] Result<const node::Door*> mpi_door();

// The processes of a file access list's communicator. Local, unlike everything that hands out a communicator: other
// processes need not be in such a call. kUnsupported: the library hides it, or there is no MPI_COMM_WORLD; kUnavailable: the list has none.
[[nodiscard]] Result<node::Membership> members_of(hid_t file_access_list, const node::Door& door);

// The communicator and info object of a file access list, as HDF5 hands them out: duplicates, which are
// freed with this object. Collective, as duplicating a communicator is. Handles are bytes here.
class MpiHandles {
  public:
    // kUnavailable: the list has none.
    [[nodiscard]] static Result<MpiHandles> of(hid_t file_access_list, const node::Door& door);
    MpiHandles(MpiHandles&& other) noexcept : door_(std::exchange(other.door_, nullptr)), communicator_(other.communicator_), info_(other.info_) {}
    MpiHandles& operator=(MpiHandles&&) = delete;
    ~MpiHandles();

    [[nodiscard]] const void* communicator() const noexcept { return &communicator_; }
    [[nodiscard]] const void* info() const noexcept { return &info_; }
    [[nodiscard]] const node::Door& door() const noexcept { return *door_; }

    // A team over a further duplicate; collective.
    [[nodiscard]] static Result<std::shared_ptr<node::Team>> make_team(hid_t file_access_list, const node::Door& door);

  private:
    explicit MpiHandles(const node::Door& door) noexcept : door_(&door) {}

    const node::Door* door_;
    std::uint64_t communicator_ = 0, info_ = 0;   // no MPI has larger handles
};

}   // namespace forebay::hdf5
