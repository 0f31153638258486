// Prepares a file for a driver that is not forebay's. That driver knows nothing of logs, so the target gets the bytes
// of deferred closes, of dead processes, and of this process's open file. Invariant: see other_driver_files.h. A file
// that ranks have open together stays staged: it drains as for a question for addresses (ProgramFile::expose_offsets),
// and must not be emptied. The driver does not get a file that this process has closed with bytes that it could not
// write. Limit: forebay knows the name that the program gives, not the members of family, multi and split files. Nor
// does it see HDF5 open a source of a virtual dataset with the driver of another file (elink.h has external links).
// Thread-safety: as HDF5's. Blocks on the target, on deferred closes, and on recoveries of the file.
#pragma once

#include "base/status.h"
#include "hdf5/host/host.h"
#include "ledger/ledger.h"

namespace forebay::hdf5 {

[[nodiscard]] bool is_of_forebay(hid_t driver) noexcept;
// Returns true for a driver that is not forebay's and does not use MPI. It is left to itself.
[[nodiscard]] bool is_left_to_driver(hid_t driver);
// Why a file with this driver, which is not forebay's, is not staged.
[[nodiscard]] ledger::AsideReason reason_of(hid_t driver);

// This process has the file open through forebay's serial driver, or through sec2 because its open stages nothing.
[[nodiscard]] bool is_open_through_forebay(const char* path);
[[nodiscard]] bool is_open_through_sec2(const char* path);

// Waits until a process of the node that has closed the file has drained it.
[[nodiscard]] Status await_closed(const char* path);
// Drains this process's staged bytes of the file, and ends its staging unless ranks share it. `flags` are those of the
// open.
[[nodiscard]] Status show_staged(const char* path, unsigned flags);
// Calls `show_staged`, and checks whether the driver may empty the file if `flags` say so. With MPI all ranks call
// this, and the caller agrees on the outcome.
[[nodiscard]] Status make_ready(const char* path, unsigned flags);
// Waits for deferred closes, recovers the file for a serial driver, and calls `make_ready`. Warns of a recovery. Fails
// if the driver must not use the file. With an MPI driver not all ranks come here, so a failed drain only warns.
[[nodiscard]] Status make_whole(hid_t driver, const char* path, unsigned flags);

}   // namespace forebay::hdf5
