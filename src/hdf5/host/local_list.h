// Handles file access lists with mpio without the other processes of their communicator.
//
// HDF5 duplicates the communicator when such a list is read, copied or set, which is collective. One process may not
// know forebay (file/launch.h). So this code reads and stores the property with the library's inner functions, which
// call no callback. An open with mpio leaves the hints that MPI has used in its list, and all processes must agree on
// them at the next open. So they are carried over from the copy. Thread-safety: as HDF5's. No call blocks.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// As bytes; the list keeps it. kUnsupported: the library hides its inner functions; kUnavailable: it has none.
[[nodiscard]] Result<std::uint64_t> peek_communicator(hid_t file_access_list);

// Returns a copy that shares the original's communicator, and that the original must outlive. Negative: it failed.
[[nodiscard]] hid_t copy_locally(hid_t file_access_list);
void close_local_copy(hid_t copy);

void carry_hints(hid_t from, hid_t to);

}   // namespace forebay::hdf5
