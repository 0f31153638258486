// Transfer property lists of datasets in files that are staged with MPI.
//
// Staging is local, so the exchange of a collective transfer would be waste; and in collective mode HDF5
// describes a transfer by MPI types, which only mpio can read. So collective transfers of unfiltered
// datasets are made with a copy of the list that says independent. Filtered datasets stay collective: HDF5
// exchanges their chunks itself, and hands plain addresses to the driver.
//
// Where HDF5 itself is certain to transfer independently (compact, external and virtual layout, no
// dataspace, conversion or transformation without selection I/O) the list stays the program's, so that the
// reasons which HDF5 notes in it are the program's too. A changed list takes its notes along: the program
// reads from its own list what was there before (see docs/consistency.md).
//
// HDF5 goes on using the list of a call until the program's call returns, after the callback has; so a copy
// lives until the same thread's next transfer.
// Source: HDF5 reference manual, H5Pset_dxpl_mpio; H5CX of 1.14.5.
#pragma once

#include "hdf5/object.h"

namespace forebay::hdf5 {

// Found out with the first call, and kept.
[[nodiscard]] const DatasetFacts& facts_of(Object& dataset);

// Whether HDF5 makes the transfer that has reached the driver in collective mode: then all ranks are in it,
// with pieces or without. HDF5 leaves it to collective MPI-IO to order such writes (fill values, filtered
// chunks, collective metadata) before what any rank does next.
[[nodiscard]] bool is_collective_now();
// Whether that can be known with this library.
[[nodiscard]] bool can_tell_collective();

// The list with which the connector beneath is to transfer `count` datasets: `transfer` itself, or the copy.
// `datasets` are our objects, `memory_types` the types in memory. Negative: the error is on HDF5's stack.
[[nodiscard]] hid_t transfer_list(std::size_t count, void* const datasets[], const hid_t memory_types[], hid_t transfer);

}   // namespace forebay::hdf5
