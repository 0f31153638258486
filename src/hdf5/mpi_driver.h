// The file driver for files opened with an mpio access list.
//
// To HDF5 and to the application it behaves as mpio does: it has MPI (communicator, info, rank and size by
// the `ctl` calls), its open, flush, truncate and close are collective. Only where bytes go differs: into a
// node::SharedFile. Transfers are independent, also where the transfer list says collective; transfer.h
// sees to it that HDF5 describes them with addresses and not with MPI types.
//
// It has no lock and unlock callbacks: with them HDF5 marks and flushes the superblock at open, after
// which the ranks count dirty metadata differently, and meet in different calls. Vector callbacks: one
// H5Dwrite may arrive as several hundred thousand pieces.
//
// Ownership: one `MpiFile` per open, from `open` to `close`. Thread-safety: as HDF5's.
// After a crash: see node::SharedFile::commit.
// Source: HDF5 reference manual, H5FD_class_t version 1; H5FDmpio.c of 1.14.5 for behaviour.
#pragma once

#include <memory>
#include <optional>

#include "hdf5/mpi_library.h"
#include "node/shared_file.h"

namespace forebay::hdf5 {

inline constexpr H5FD_class_value_t kMpiDriverValue = 483;

// Registers the class with the host. Negative: HDF5 refused; its error stack says why.
[[nodiscard]] hid_t register_mpi_driver();

// The shared file that the last open in this thread has opened, handed over once; null: it was none.
[[nodiscard]] std::shared_ptr<node::SharedFile> take_opened_file();

// For the open that comes next in this thread: the processes that take part, known already.
void offer_team(std::optional<OfferedTeam> team);

// Locks every transfer of the file against those of other ranks (MPI's atomic mode), or no longer.
void set_atomic(const node::SharedFile& file, bool atomic);
[[nodiscard]] bool is_atomic(const node::SharedFile& file);

}   // namespace forebay::hdf5
