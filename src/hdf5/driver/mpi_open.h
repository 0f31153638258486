// Opens a file with the ranks of a communicator. Collective; all ranks get the same outcome.
#pragma once

#include "hdf5/driver/mpi_driver.h"
#include "hdf5/driver/mpi_file.h"

namespace forebay::hdf5 {

// Makes the team of the access list's communicator, for an open without a TeamOffer: that of an external link's file.
[[nodiscard]] Result<OfferedTeam> offer_from(hid_t list, const file::MpiAdapter& adapter);

// Recovers the file from logs of dead processes, creates or empties it by the flags, and claims it for this group of
// ranks. Then opens these ranks' SharedFile, or joins the one they have open. `file` has its team. Errors: the file's,
// with its name; another group of ranks writes it (EBUSY, EEXIST).
[[nodiscard]] Status open_file(MpiFile& file, const char* name, unsigned flags);

// Joins several nodes' caches if all ranks read the file through their caches. Collective; does not affect the open.
void join_peers(MpiFile& file) noexcept;
void leave_peers(MpiFile& file) noexcept;

}   // namespace forebay::hdf5
