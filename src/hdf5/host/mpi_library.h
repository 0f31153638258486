// Loads the library for the MPI of this process (src/mpi) at the first need. Never initialises MPI.
// The host's libhdf5 brings the MPI, known by its answer to MPI_Get_library_version. The library lies beside the
// plugin, in the build tree and when installed. Thread-safety: any thread; one of them loads it.
#pragma once

#include <memory>

#include "file/mpi_adapter.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// kUnsupported: an unknown MPI, or a host without one; kNotFound: no library; kUnavailable: cannot load it.
[[nodiscard]] Result<const file::MpiAdapter*> mpi_adapter();

// The processes of a file access list's communicator. Local, unlike each call that returns a communicator.
// kUnsupported: the library hides it, or MPI_COMM_WORLD is missing; kUnavailable: the list has no communicator.
[[nodiscard]] Result<file::Membership> members_of(hid_t file_access_list, const file::MpiAdapter& adapter);

// The processes that open a file, and a duplicate of the file access list's communicator, which ends with the team.
// HDF5 gets it too, because each duplicate costs all processes several messages. Only the program's thread uses it.
struct OfferedTeam {
    std::shared_ptr<file::Team> team;
    std::uint64_t communicator = 0;   // no MPI has larger handles
    bool leads = false;               // this is the lowest rank of its node
    bool several_nodes = false;       // equal on all ranks

    // Collective. kUnavailable: the list has no communicator.
    [[nodiscard]] static Result<OfferedTeam> make(hid_t file_access_list, const file::MpiAdapter& adapter);
};

// The handles that HDF5 asks an open file for, as bytes: the team's communicator, and an info object, owned here.
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
