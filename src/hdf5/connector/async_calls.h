// Asynchronous transfers of datasets, for event sets (docs/migrating.md).
// A read whose bytes do not need HDF5 becomes a request. The program's thread finds the pieces, and another thread,
// which calls neither HDF5 nor MPI, fetches them (stage/async_requests.h). Other reads, counted with the reason, and
// writes end before their call returns. Thread-safety: as HDF5's. Blocking: a read waits for room among the requests.
#pragma once

#include <memory>

#include "hdf5/connector/object.h"
#include "hdf5/connector/transfer.h"
#include "stage/async_requests.h"

namespace forebay::hdf5 {

// Returns null if HDF5 has to make the read.
[[nodiscard]] std::shared_ptr<stage::AsyncRequest> begin_read(const Transfer<void*>& read);

// Waits for reads of the dataset's file, as each call without an event set must before it returns.
void end_reads_of(const Object& dataset) noexcept;
// Like `end_reads_of`, before a close of the dataset, unless its file has `closes_at_once`.
void end_reads_before_closing(const Object& dataset) noexcept;
void end_reads_of_file(const Object& file) noexcept;

}   // namespace forebay::hdf5
