// Recovers a file that is being opened from logs of dead processes, before any byte of it is read.
// Each function writes at most one line to standard error, and blocks until any process has recovered the file.
#pragma once

#include "base/status.h"
#include "file/team.h"
#include "hdf5/open_file.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

enum class Locked { kNot, kForReading, kForWriting };

// If the file is locked for writing, the recovery may use its descriptor. A lock for reading is released while others
// recover the file; after an error it may be lost (see `locked`).
[[nodiscard]] Status recover_alone(const OpenFile& file, stage::Engine& engine, Locked& locked);

// Collective, before any rank opens the existing file at `path`. Each rank looks on its own node and waits for an
// earlier rank there. A rank that failed looks again while others recover parts (file/recover_collectively.h). With
// `writable`, an unusable log is an error on all ranks. `engine` may be null.
[[nodiscard]] Status recover_together(file::Team& team, stage::Engine* engine, const char* path, bool writable);

}   // namespace forebay::hdf5
