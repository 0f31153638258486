// Opening a file with the ranks of a communicator. Collective: every rank comes this way, and the outcome is
// everybody's.
#pragma once

#include "hdf5/driver/mpi_driver.h"
#include "hdf5/driver/mpi_file.h"

namespace forebay::hdf5 {

// The ranks of the access list's communicator, for an open that nobody has offered a team for: that of an external
// link's file.
[[nodiscard]] Result<OfferedTeam> offer_from(hid_t list, const file::MpiAdapter& adapter);

// `file` has its team. Recovers what dead processes have left of the file, creates or empties it as the flags say,
// claims it for this group of ranks, and opens the shared file of those ranks, or joins the one that they have open.
// Errors: the file's, by name; another group of ranks writes it (EBUSY, EEXIST).
[[nodiscard]] Status open_file(MpiFile& file, const char* name, unsigned flags);

// A file that ranks of several nodes have opened for reading: each node may read what another has, if all read it
// through their caches. Collective; without effect on what the open returns.
void join_peers(MpiFile& file) noexcept;
// The end of that. Local.
void leave_peers(MpiFile& file) noexcept;

}   // namespace forebay::hdf5
