// The end of a descriptor whose close the program did not wait for (docs/consistency.md, "Deferred close").
//
// A process loses its record locks on a file (fcntl, F_SETLK) when any thread of it closes any descriptor of the file.
// Natively H5Fclose has done that before the program takes one. So a descriptor of a file that the program has locked
// meanwhile is kept: until the program closes the file through HDF5 again, or ends. The program has a descriptor of its
// own for each that is kept. Between the look and the close the program may still take a lock.
#pragma once

#include <memory>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

// By the thread that has finished the file. `locked`: HDF5's lock is on it. The Status is that of the file: network
// file systems tell at a close what they could not write. May block as close(2).
Status end_deferred_descriptor(const std::shared_ptr<io::Descriptor>& descriptor, const io::Identity& identity,
                               bool locked, stage::Ended ended);

// The program closes this file: those that are kept of it go, too. Does not block.
void close_kept_descriptors(const io::Identity& identity) noexcept;

}   // namespace forebay::hdf5
