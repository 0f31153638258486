// What dead processes have left of a file that is being opened: it is brought home before anything is read.
//
// Both functions recover the file through the engine, and write at most one line about it to standard error.
// Blocking: until the file is recovered, also by another process.
#pragma once

#include "base/status.h"
#include "file/team.h"
#include "hdf5/open_file.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

// How HDF5 has locked the file meanwhile.
enum class Locked { kNot, kForReading, kForWriting };

// Of a file that one process opens, which has its descriptor: that may be used for the recovery, if it is locked for
// writing. A lock for reading is given up while others recover the file. With an error the lock for reading may be lost
// (`locked` tells).
[[nodiscard]] Status recover_alone(const OpenFile& file, stage::Engine& engine, Locked& locked);

// Of a file that the ranks of a communicator are about to open. Collective, before any of them opens the existing file
// at `path`. Every rank looks on its own node; whoever comes second there waits until the first one is done, and
// whoever could not use it looks again while others bring something home (file/recover_collectively.h). With `writable`
// the error, the same on all ranks, is that a log cannot be used. `engine` may be null.
[[nodiscard]] Status recover_together(file::Team& team, stage::Engine* engine, const char* path, bool writable);

}   // namespace forebay::hdf5
