// Programs that read around HDF5: they ask it where in the file their data are, and read the file by its path.
//
// Whoever is handed a byte address finds the bytes there, as natively. So before the answer the file is drained, and
// what is written to it afterwards goes straight to it (stage::StagedFile::expose_offsets; file::SharedFile's where
// ranks share it). Which calls hand out addresses is in docs/consistency.md.
//
// Thread-safety: as HDF5's. Blocks until the file is drained.
#pragma once

#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

// The file that the dataset is in; null: it has not our driver.
[[nodiscard]] std::shared_ptr<OpenFile> home_of(const Object& dataset);

// Before the program is told where data of this dataset are. False: they cannot be brought there; the error is on the
// stack.
[[nodiscard]] bool expose_offsets(const char* function, const Object& dataset);

// Calls the connector beneath for an operation of a dataset that is "optional", and gives addresses if its answer has
// any.
[[nodiscard]] herr_t dataset_optional_giving(const Object& dataset, H5VL_optional_args_t* args, hid_t transfer,
                                             void** request);

}   // namespace forebay::hdf5
