// The library that belongs to the MPI of this process (src/mpi), loaded when it is first needed.
//
// The MPI is the one that the host's libhdf5 was built with, found by its own answer to
// MPI_Get_library_version. The library lies beside the plugin, in the build tree and when installed.
// Thread-safety: all calls from any thread; loading happens once. Never initialises MPI.
#pragma once

#include <memory>

#include "file/mpi_adapter.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// The adapter of src/mpi. kUnsupported: an unknown MPI, or a host without one; kNotFound: there is no
// library for this MPI; kUnavailable: it cannot be loaded.
[[nodiscard]] Result<const file::MpiAdapter*> mpi_adapter();

// The processes of a file access list's communicator. Local, unlike everything that hands out a communicator: other
// processes need not be in such a call. kUnsupported: the library hides it, or there is no MPI_COMM_WORLD;
// kUnavailable: the list has none.
[[nodiscard]] Result<file::Membership> members_of(hid_t file_access_list, const file::MpiAdapter& adapter);

// Those who open a file, and the communicator that they are a team over: a duplicate of the file access list's, which
// ends with the team. HDF5 is handed the same one: each duplicate costs all of them several messages, and nobody but
// the program's thread, in its calls of HDF5, uses either.
struct OfferedTeam {
    std::shared_ptr<file::Team> team;
    std::uint64_t communicator = 0;   // no MPI has larger handles
    bool leads = false;               // no rank below this one is on the same node
    bool several_nodes = false;       // the same on all ranks

    // Collective. kUnavailable: the list has no communicator.
    [[nodiscard]] static Result<OfferedTeam> make(hid_t file_access_list, const file::MpiAdapter& adapter);
};

// What HDF5 asks an open file for: its communicator, which is the team's, and an info object, which is freed with this
// one. Handles are bytes here.
class MpiHandles {
  public:
    // Local. kUnavailable: the list has no info object.
    [[nodiscard]] static Result<MpiHandles> of(hid_t file_access_list, const file::MpiAdapter& adapter,
                                               std::uint64_t communicator);
    MpiHandles(MpiHandles&& other) noexcept
        : adapter_(std::exchange(other.adapter_, nullptr)), communicator_(other.communicator_), info_(other.info_) {}
    MpiHandles& operator=(MpiHandles&&) = delete;
    ~MpiHandles();

    [[nodiscard]] const void* communicator() const noexcept { return &communicator_; }
    [[nodiscard]] const void* info() const noexcept { return &info_; }
    [[nodiscard]] const file::MpiAdapter& adapter() const noexcept { return *adapter_; }

  private:
    MpiHandles(const file::MpiAdapter& adapter, std::uint64_t communicator) noexcept
        : adapter_(&adapter), communicator_(communicator) {}

    const file::MpiAdapter* adapter_;
    std::uint64_t communicator_, info_ = 0;
};

}   // namespace forebay::hdf5
