// What dead processes have left of a file that the ranks of a communicator are about to open.
#pragma once

#include "base/status.h"
#include "node/team.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

// Collective, before any of them opens the existing file at `path`. Every rank looks on its own node (option recover); whoever
// comes second there waits until the first one is done, and whoever could not use it looks again while others bring something home
// (node/look_together.h). Blocks until all are. One rank at most writes a line about it
// to standard error. With `writable` the error, the same on all ranks, is that a log cannot be used. `engine` may be null.
[[nodiscard]] Status recover_together(node::Team& team, stage::Engine* engine, const char* path, bool writable);

}   // namespace forebay::hdf5
