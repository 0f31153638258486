// The file driver for files opened with an mpio access list.
//
// To HDF5 and to the application it behaves as mpio does: it has MPI (communicator, info, rank and size by
// the `ctl` calls), its open, flush, truncate and close are collective. Only where bytes go differs: into a
// file::SharedFile. Transfers are independent, also where the transfer list says collective; transfer.h
// sees to it that HDF5 describes them with addresses and not with MPI types.
//
// It has no lock and unlock callbacks: with them HDF5 marks and flushes the superblock at open, after
// which the ranks count dirty metadata differently, and meet in different calls. Vector callbacks: one
// H5Dwrite may arrive as several hundred thousand pieces.
//
// Ownership: one `MpiFile` per open, from `open` to `close`. Thread-safety: as HDF5's.
// After a crash: see file::SharedFile::commit.
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

// Registers the class with the host. Negative: HDF5 refused; its error stack says why.
[[nodiscard]] hid_t register_mpi_driver();

// What an open has found out about the processes that take part, for the driver's `open` below it. Lives on that call's
// stack; only an open of the same name in the same thread takes it, and once.
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
