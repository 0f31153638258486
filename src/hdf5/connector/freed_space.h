// Guards space of raw data that HDF5 is about to free, in files that several nodes have open.
// HDF5 reuses freed space at once, on any rank. Bytes staged for the old use must not reach the file after those of the
// new use. So before a call that may free raw data, the rank waits until all such files have drained the bytes staged
// so far (SharedFile::await_drained). A rank that calls alone, or fails early, leaves no rank waiting. With several
// nodes only the program's own raw data of unfiltered datasets are staged (call_scope.h). So the calls are only these
// (H5MF_xfree of 1.14.5; docs/decisions/parallel-hdf5.md):
// - deleting a link, lowering a reference count: it may be the object's last (H5O_delete);
// - closing a dataset or a group that no link leads to, or a file in which one is open (H5FO_delete);
// - making a dataset smaller (H5D__chunk_prune_by_extent).
// Thread-safety: as HDF5's.
#pragma once

#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

// Each returns false, with an error on HDF5's stack, if staged bytes cannot drain. HDF5 must not free anything then.
[[nodiscard]] bool ready_to_free(const char* function);
[[nodiscard]] bool ready_to_close(const char* function, const Object& object, H5I_type_t type);
[[nodiscard]] bool ready_to_resize(const char* function, const Object& dataset, const hsize_t* extents);

// An object has lost its last link, or may have, or never had one.
void note_unlinked();

}   // namespace forebay::hdf5
