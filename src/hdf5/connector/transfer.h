// Chooses how the datasets of one H5Dread or H5Dwrite are transferred, in files that are staged with MPI. A staged file
// needs no exchange between ranks, and only mpio can read the MPI types by which HDF5 describes a collective transfer.
// So a collective transfer of unfiltered datasets uses a copy of the list that says independent. Filtered datasets stay
// collective: HDF5 exchanges their chunks itself, and gives the driver plain addresses. A call with datasets of both
// kinds (H5Dwrite_multi) makes two transfers. A dataset's kind is equal on all ranks. Programs rely on the order of
// collective transfers: MPI-IO begins each one by telling all ranks each rank's request. So ranks meet before and after
// a transfer that is made independently. HDF5 itself transfers all datasets of some calls independently: a layout is
// compact, external or virtual, a dataspace is missing, or any rank converts or transforms without selection I/O. Such
// calls keep the program's list, where the program finds HDF5's reasons. The notes in a copy are lost: the program
// reads earlier ones from its own list (docs/consistency.md). A file that ranks only read needs no meeting, and one
// rank's types decide nothing: HDF5's note about a conversion is missing there. Thread-safety: as HDF5's. A copy of a
// list, and its context (library_context.h), last for one call beneath. Source: HDF5 reference manual,
// H5Pset_dxpl_mpio; H5D__mpio_opt_possible and H5CX of 1.14.5.
#pragma once

#include <vector>

#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

[[nodiscard]] const DatasetFacts& facts_of(Object& dataset);

[[nodiscard]] bool is_collective(hid_t transfer);
// True if the transfer in the driver is collective: all ranks take part, with or without pieces. HDF5 relies on such
// writes (fill values, filtered chunks, collective metadata) being complete before any rank's next step.
[[nodiscard]] bool is_collective_now();
// Returns null if this library can stage files with MPI. The reason otherwise: it hides the mode of transfers, cannot
// replace a list, or describes its own writes to the driver by MPI types.
[[nodiscard]] const char* obstacle_with_mpi();

// Records HDF5's MPI types for plain bytes. Call this in a call that transfers nothing.
void remember_plain_types();
// True if HDF5 describes the collective transfer in the driver, one piece of `size_bytes`, by MPI types, or if that is
// unknown. Its address and size do not hold then.
[[nodiscard]] bool is_described_by_types(std::size_t size_bytes);

// Of H5VLdataset_read and H5VLdataset_write. `datasets` are forebay's objects.
template <class Buffer>
struct Transfer {
    std::size_t count;
    void** datasets;
    hid_t *memory_types, *memory_spaces, *file_spaces;
    hid_t list;
    Buffer* buffers;
};

struct TransferWay {
    enum class Part { kProgramsList, kIndependently };
    bool failed = false;                    // with an error on HDF5's stack; on all ranks if `together` is null
    std::vector<Part> parts;                // of each dataset; empty: all use the program's list
    CallKind kind = CallKind::kOwnData;     // of the part with the program's list
    file::SharedFile* together = nullptr;   // its ranks have met, and meet again afterwards; null: HDF5's do, or none

    [[nodiscard]] bool any(Part what) const noexcept;
};

// Collective, if the list is and any dataset is unfiltered: then all ranks choose the same way.
[[nodiscard]] TransferWay way_of(std::size_t count, void* const datasets[], const hid_t memory_types[], hid_t list);

// Returns a copy of the list that says independent. Negative: the error is on HDF5's stack.
[[nodiscard]] hid_t independent_copy(hid_t list);

}   // namespace forebay::hdf5
