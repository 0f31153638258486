// The `lock` and `unlock` callbacks of the serial driver: flock(2) as in sec2, also beside clients of a staging server.
// A client that writes a file through the server has it locked. A reader then reads the client's last flush without a
// lock, and a writer waits for a bounded time until client and server are done. Thread-safety: HDF5 calls one file from
// one thread at a time. Blocks on deferred closes, recovery and the server.
#pragma once

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

[[nodiscard]] herr_t driver_lock(H5FD_t* file, hbool_t exclusive);
[[nodiscard]] herr_t driver_unlock(H5FD_t* file);

}   // namespace forebay::hdf5
