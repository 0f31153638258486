// How the datasets of one H5Dread or H5Dwrite are transferred, in files that are staged with MPI.
//
// Staging is local, so the exchange of a collective transfer would be waste; and in collective mode HDF5
// describes a transfer by MPI types, which only mpio can read. So a collective transfer of unfiltered
// datasets is made with a copy of the list that says independent. Filtered datasets stay collective: HDF5
// exchanges their chunks itself, and hands plain addresses to the driver. One call may have datasets of both kinds
// (H5Dwrite_multi); each kind is then transferred by itself. Which kind a dataset is does not depend on the rank.
//
// Collective transfers come one after the other for all ranks, and programs rely on that: MPI-IO begins each by telling
// all ranks what each asks for. So ranks meet before and after one that is made independently.
//
// Where HDF5 itself is certain to transfer independently it does so for all datasets of the call (compact, external and
// virtual layout, no dataspace; conversion or transformation on any rank without selection I/O). Then the list stays
// the program's, so that the reasons which HDF5 notes in it are the program's too. A copy takes its notes along: the
// program reads from its own list what was there before (see docs/consistency.md).
//
// A file that ranks only read needs no meeting, and what one of them says of types decides nothing: what HDF5 notes of
// conversion is not noted there.
//
// Thread-safety: as HDF5's. A copy of a list, and a context for it (library_context.h), last for one call beneath.
// Source: HDF5 reference manual, H5Pset_dxpl_mpio; H5D__mpio_opt_possible and H5CX of 1.14.5.
#pragma once

#include <vector>

#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

// Found out with the first call, and kept.
[[nodiscard]] const DatasetFacts& facts_of(Object& dataset);

// Whether the list says collective.
[[nodiscard]] bool is_collective(hid_t transfer);
// Whether HDF5 makes the transfer that has reached the driver in collective mode: then all ranks are in it,
// with pieces or without. HDF5 leaves it to collective MPI-IO to order such writes (fill values, filtered
// chunks, collective metadata) before what any rank does next.
[[nodiscard]] bool is_collective_now();
// Why files opened with MPI cannot be staged with this library: that cannot be known, a list cannot be replaced, or it
// describes to the driver by MPI types what belongs to no transfer of a program's. Null: they can.
[[nodiscard]] const char* obstacle_with_mpi();

// What HDF5's types of MPI are when they mean bytes: to be called in a call that transfers nothing.
void remember_plain_types();
// Whether HDF5 describes the collective transfer that has reached the driver, as one piece of `size_bytes`, by MPI
// types: then neither the address nor the size are what they seem to be. Also true where that cannot be known.
[[nodiscard]] bool is_described_by_types(std::size_t size_bytes);

// The arguments of H5VLdataset_read and H5VLdataset_write. `datasets` are our objects.
template <class Buffer>
struct Transfer {
    std::size_t count;
    void** datasets;
    hid_t *memory_types, *memory_spaces, *file_spaces;
    hid_t list;
    Buffer* buffers;
};

// What becomes of a transfer.
struct TransferWay {
    enum class Part { kProgramsList, kIndependently };
    bool failed = false;                    // the error is on HDF5's stack; on all ranks, if `together` is null
    std::vector<Part> parts;                // of each dataset; empty: all are transferred with the program's list
    CallKind kind = CallKind::kOwnData;     // of what is transferred with the program's list
    file::SharedFile* together = nullptr;   // whose ranks have met, and meet again afterwards; null: HDF5's do, or none

    [[nodiscard]] bool any(Part what) const noexcept;
};

// Collective, if the list is and any dataset is unfiltered: then all ranks come to the same.
[[nodiscard]] TransferWay way_of(std::size_t count, void* const datasets[], const hid_t memory_types[], hid_t list);

// A copy of the list that says independent. Negative: the error is on HDF5's stack.
[[nodiscard]] hid_t independent_copy(hid_t list);

}   // namespace forebay::hdf5
