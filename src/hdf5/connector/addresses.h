// Programs that read around HDF5: they ask HDF5 for the offsets of their data, and read the file by its path.
// So the file drains before the answer, and later writes reach the target before they return. Lists of these calls:
// docs/consistency.md. Thread-safety: as HDF5's. Blocks until the file is drained (ProgramFile::expose_offsets).
#pragma once

#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

// Returns null if forebay's driver does not have the file.
[[nodiscard]] std::shared_ptr<OpenFile> home_of(const Object& dataset);

// Call this before the program gets offsets. Returns false, with an error on the stack, if the drain fails.
[[nodiscard]] bool expose_offsets(const char* function, const Object& dataset);

// Calls a dataset's optional operation beneath, and exposes the offsets if the answer has addresses.
[[nodiscard]] herr_t dataset_optional_giving(const Object& dataset, H5VL_optional_args_t* args, hid_t transfer,
                                             void** request);

}   // namespace forebay::hdf5
