// The file driver for files opened with an mpio access list. HDF5 and the application see mpio's behaviour: its `ctl`
// calls give communicator, info, rank and size, and open, flush, truncate and close are collective.
// The bytes go to a file::SharedFile. Transfers are independent even if the list says collective (transfer.h). Without
// lock and unlock callbacks HDF5 does not flush the superblock at the open, after which ranks would count dirty
// metadata differently and meet in different calls. Vector callbacks take the several hundred thousand pieces of one
// H5Dwrite. Ownership: one `MpiFile` for each open. Thread-safety: as HDF5's. After a crash: see
// file::SharedFile::commit. Source: HDF5 reference manual, H5FD_class_t version 1; H5FDmpio.c of 1.14.5 for behaviour.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "file/shared_file.h"
#include "hdf5/host/mpi_library.h"

namespace forebay::hdf5 {

inline constexpr H5FD_class_value_t kMpiDriverValue = 483;

// Registers the class with the host. Negative: HDF5 refused; its error stack holds the reason.
[[nodiscard]] hid_t register_mpi_driver();

// Passes the team of an open to the driver's `open` of that name in this thread. Lives on that call's stack.
class TeamOffer {
  public:
    TeamOffer(const char* name, OfferedTeam team);
    ~TeamOffer();
    TeamOffer(const TeamOffer&) = delete;
    TeamOffer& operator=(const TeamOffer&) = delete;

    [[nodiscard]] static std::optional<OfferedTeam> take(std::string_view name);

  private:
    const std::string name_;
    std::optional<OfferedTeam> team_;
    TeamOffer* const outer_;
};

}   // namespace forebay::hdf5
