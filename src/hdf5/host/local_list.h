// File access lists with mpio, handled without the other processes of their communicator.
//
// Whatever HDF5 does to such a list duplicates its communicator: getting it, copying the list, setting it. All its
// processes have to do that together. Where one of them may know nothing of forebay (file/launch.h) the property is
// looked at, and stored, by the library's inner functions, which call none of its callbacks. An open with mpio leaves
// the hints that MPI has used in the list it was given, and the next open hands them to MPI, in which all processes
// must agree. So they are carried over from the copy. Thread-safety: as HDF5's. Nothing blocks.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// The list's own communicator, as bytes; it stays the list's. kUnsupported: this library hides its inner functions;
// kUnavailable: the list has none.
[[nodiscard]] Result<std::uint64_t> peek_communicator(hid_t file_access_list);

// A copy whose communicator is that of the original, which has to live longer. Negative: it failed.
[[nodiscard]] hid_t copy_locally(hid_t file_access_list);
// Closes such a copy; the communicator stays.
void close_local_copy(hid_t copy);

// The hints of one list (MPI's info object) become those of another one.
void carry_hints(hid_t from, hid_t to);

}   // namespace forebay::hdf5
