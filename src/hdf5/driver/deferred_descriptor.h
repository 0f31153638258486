// Ends a descriptor after a deferred close (docs/consistency.md, "Deferred close").
// A process loses its record locks on a file (fcntl, F_SETLK) when any of its threads closes any descriptor of the
// file. Natively, H5Fclose closes it before the program takes a lock. So while the program has locked the file, a
// descriptor is kept until the program closes the file through HDF5 again, or ends. The program has a descriptor of its
// own open for each kept one. It may still take a lock between the check and the close.
#pragma once

#include <memory>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

// Call this in the thread that has finished the file. `locked`: HDF5's lock is on the file. Returns the file's Status:
// network file systems report failed writes at a close. May block like close(2).
Status end_deferred_descriptor(const std::shared_ptr<io::Descriptor>& descriptor, const io::Identity& identity,
                               bool locked, stage::Ended ended);

void close_kept_descriptors(const io::Identity& identity) noexcept;

}   // namespace forebay::hdf5
