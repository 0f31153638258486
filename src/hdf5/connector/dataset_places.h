// Finds the bytes of a selection in its file, to read them ahead.
// Ranges may cover a little more than the selection: a chunk is fetched whole, and a selection of very many pieces
// becomes its hull. Values of variable length, and virtual and external datasets, have their bytes elsewhere and are
// left out. Unwritten chunks have no bytes. Thread-safety: as HDF5's, in the program's thread. Blocks while HDF5 reads
// a chunk index, which is collective with collective metadata reads. Errors are on HDF5's stack.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "extent/range.h"
#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

// Returns ranges in file order, or nothing if `file_space` does not have the dataset's extent. H5S_ALL: the whole
// dataset. Without `wanted` it only checks the dataspace.
[[nodiscard]] std::optional<std::vector<ByteRange>> places_of(const char* function, const Object& dataset,
                                                              hid_t file_space, bool wanted = true);

// Returns ranges of rows (indices of the first axis) in this order, or nothing if the dataset lacks one of the rows.
[[nodiscard]] std::optional<std::vector<ByteRange>> places_of_rows(const char* function, const Object& dataset,
                                                                   std::span<const std::uint64_t> rows,
                                                                   bool wanted = true);

}   // namespace forebay::hdf5
