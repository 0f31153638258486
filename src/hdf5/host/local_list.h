// Handles file access lists with mpio without the other processes of their communicator.
// HDF5 duplicates the communicator when such a list is read, copied or set, which is collective. Some of these
// processes may run without forebay (file/launch.h), or may not make the call, and would not take part. So this code
// reads and stores the property with the library's inner functions, which call no callback. forebay opens with a copy
// of the program's list. The open leaves MPI's hints in the copy, and all processes must agree on them at the next
// open. So `carry_hints` puts them into the program's list. Thread-safety: as HDF5's. No call blocks.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// Returns the communicator's handle as an integer; the list still owns it. kUnsupported: the library hides its inner
// functions. kUnavailable: the list has no communicator.
[[nodiscard]] Result<std::uint64_t> peek_communicator(hid_t file_access_list);

// Returns a copy that shares the original's communicator, and that the original must outlive. Negative: it failed.
[[nodiscard]] hid_t copy_locally(hid_t file_access_list);
void close_local_copy(hid_t copy);

void carry_hints(hid_t from, hid_t to);

// Returns the file access list inside a link access list, which the latter owns: not a copy, as H5Pget_elink_fapl
// returns. H5P_DEFAULT: it has none. kUnsupported as above.
[[nodiscard]] Result<hid_t> peek_elink_fapl(hid_t link_access_list);

// Like H5Pset_elink_cb, also for HDF5's own default list, which HDF5 2.0 refuses to change. False: it failed.
[[nodiscard]] bool set_elink_callback(hid_t link_access_list, H5L_elink_traverse_t function, void* data);

}   // namespace forebay::hdf5
