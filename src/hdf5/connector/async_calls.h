// Asynchronous transfers of datasets, for event sets.
//
// A read whose bytes HDF5 is not needed for becomes a request: the pieces are found in the program's thread, and
// fetched by another one that calls neither HDF5 nor MPI (stage/async_requests.h). Every other read, and every write,
// is made before its call returns. Why a read was is counted. docs/migrating.md.
//
// Thread-safety: as HDF5's. Blocking: a read that is begun waits for room among the requests at most.
#pragma once

#include <memory>

#include "hdf5/connector/object.h"
#include "hdf5/connector/transfer.h"
#include "stage/async_requests.h"

namespace forebay::hdf5 {

// Null: the read has to be made by HDF5.
[[nodiscard]] std::shared_ptr<stage::AsyncRequest> begin_read(const Transfer<void*>& read);

// Before a call without an event set returns: reads of the dataset's file have ended, as if they had not been
// asynchronous.
void end_reads_of(const Object& dataset) noexcept;
// The same before a call that closes the dataset, unless its file says that closing waits for nothing.
void end_reads_before_closing(const Object& dataset) noexcept;
// The same for all reads of a file.
void end_reads_of_file(const Object& file) noexcept;

}   // namespace forebay::hdf5
