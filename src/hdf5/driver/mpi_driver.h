// The file driver for files opened with an mpio access list.
//
// It behaves like mpio to HDF5 and to the application: its `ctl` calls give communicator, info, rank and size, and
// open, flush, truncate and close are collective. Only the bytes take another way, into a file::SharedFile. Transfers
// are independent even if the transfer list says collective; transfer.h has HDF5 give addresses, not MPI types.
//
// It has no lock and unlock callbacks. With them HDF5 would flush the superblock at the open; ranks would then count
// dirty metadata differently and meet in different calls. It has vector callbacks: one H5Dwrite may arrive as several
// hundred thousand pieces.
// Ownership: one `MpiFile` for each open. Thread-safety: as HDF5's. After a crash: see file::SharedFile::commit.
// Source: HDF5 reference manual, H5FD_class_t version 1; H5FDmpio.c of 1.14.5 for behaviour.
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

// Passes the team of an open to the driver's `open` below it. Lives on that call's stack. One open of the same name in
// the same thread takes it.
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
