// Programs that read around HDF5: they ask HDF5 for the offsets of their data, and read the file by its path.
//
// Such a program must find its bytes there, as natively. So the file drains before the answer, and later writes reach
// the target before they return (ProgramFile::expose_offsets). docs/consistency.md lists the calls that return
// addresses. Thread-safety: as HDF5's. Blocks until the file is drained.
#pragma once

#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

// Returns the dataset's file, or null if forebay's driver does not have it.
[[nodiscard]] std::shared_ptr<OpenFile> home_of(const Object& dataset);

// Call this before the program gets offsets. Returns false, with an error on the stack, if the drain fails.
[[nodiscard]] bool expose_offsets(const char* function, const Object& dataset);

// Calls a dataset's optional operation beneath, and exposes the offsets if the answer has addresses.
[[nodiscard]] herr_t dataset_optional_giving(const Object& dataset, H5VL_optional_args_t* args, hid_t transfer,
                                             void** request);

}   // namespace forebay::hdf5
