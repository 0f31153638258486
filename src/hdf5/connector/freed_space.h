// Space of raw data that HDF5 is about to free, in files that several nodes have open.
//
// HDF5 uses freed space again at once, on any rank. What a node had staged for the old use must not come to the file
// after what is written for the new one. So whoever makes a call that may free raw data first waits until everything
// staged so far has drained (SharedFile::await_drained). That is independent: a rank that makes such a call alone, or
// fails before the others, leaves nobody waiting. Only the program's own raw data of datasets without filters are
// staged on several nodes (call_scope.h), so these are all such calls (H5MF_xfree of 1.14.5;
// docs/decisions/parallel-hdf5.md):
//
// - deleting a link, lowering a reference count: the object may have been the last one's (H5O_delete);
// - closing a dataset or a group that no link leads to, or a file in which one is open (H5FO_delete);
// - making a dataset smaller (H5D__chunk_prune_by_extent).
//
// Where the object lies does not matter: all files that several nodes have open are waited for.
// Thread-safety: as HDF5's.
#pragma once

#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

// False: staged bytes cannot be drained, and HDF5 must not free anything; its error stack says so.
[[nodiscard]] bool ready_to_free(const char* function);
// The same before an object, or a file, is closed.
[[nodiscard]] bool ready_to_close(const char* function, const Object& object, H5I_type_t type);
// The same before the extents of a dataset change.
[[nodiscard]] bool ready_to_resize(const char* function, const Object& dataset, const hsize_t* extents);

// The link of an object was, or may have been, its last one; or it never had one.
void note_unlinked();

}   // namespace forebay::hdf5
