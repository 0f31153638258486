// One open of a file by one process. HDF5 holds a pointer to it from the serial driver's `open` to its `close`.
// The functions put their failure on HDF5's error stack, under the name `function`. Thread-safety: as HDF5's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "cache/small_copy.h"
#include "file/program_file.h"
#include "hdf5/driver/driver_base.h"
#include "hdf5/driver/open_recovery.h"
#include "stage/engine.h"
#include "stage/refused_changes.h"

namespace forebay::hdf5 {

struct SerialFile : DriverFile {
    Locked locked = Locked::kNot;
    // True while it is locked for writing. Objects that outlive this handle share it.
    std::shared_ptr<std::atomic<bool>> holds_lock = std::make_shared<std::atomic<bool>>(false);
    bool ignore_disabled_locks = false;
    bool family_to_single = false;               // set by h5repart
    bool emptied = false;                        // the open has emptied the file, or made it
    bool leftovers_seen = false;                 // the file was recovered from logs of dead processes
    bool closes_awaited = false;                 // the file has the bytes of earlier deferred closes
    Status refused;                              // an error says why the file must not be used
    bool by_lease = false;                       // not open: a lease says what the file is
    std::shared_ptr<cache::LeasedFile> leased;   // until it is attached
    stage::RefusedChanges refused_changes;       // while there are any, the file stays at its last commit
    bool shown = false;   // reads return the last flush of another program (wire/snapshot_file.h)
};

// Waits until deferred closes of the file, in this process or another one, have ended. Call it before the file is
// locked, read or emptied, but not at the open: HDF5 may close that handle unused. False: do not use the file.
[[nodiscard]] bool await_closed(const char* function, SerialFile& file, stage::Engine& engine);

// Recovers the file from logs of dead processes, and blocks until that is done. Call it before the file is read, and
// after HDF5 locks it: a process may have died while this one waited for its lock. False: the file must not be used.
[[nodiscard]] bool see_leftovers(const char* function, SerialFile& file, stage::Engine& engine);

// Attaches the file to the engine, once; null on failure. `prepare`: as in stage::OpenTarget. Blocks as those above.
[[nodiscard]] file::ProgramFile* attached(const char* function, SerialFile& file, std::function<Status()> prepare = {});

}   // namespace forebay::hdf5
