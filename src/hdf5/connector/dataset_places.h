// Where in its file the bytes of a selection lie, for reading them ahead.
//
// Asked of HDF5 in the program's thread. Ranges may cover a little more than the selection: a chunk is fetched whole,
// and a selection of very many pieces becomes its hull. Bytes of values of variable length, and of virtual and external
// datasets, lie elsewhere and are left out. Chunks of a dataset that was never written have none.
//
// Thread-safety: as HDF5's. Blocks as HDF5's reading of a chunk index does, which with collective metadata reads is
// collective. Errors are on HDF5's stack.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "extent/range.h"
#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

// In the order of the file. Nothing: `file_space` is no dataspace of the dataset's extent. H5S_ALL: all of it.
// Without `wanted` only the dataspace is looked at.
[[nodiscard]] std::optional<std::vector<ByteRange>> places_of(const char* function, const Object& dataset,
                                                              hid_t file_space, bool wanted = true);

// Of rows, which are indices of the first axis, in this order. Nothing: the dataset has no such row.
[[nodiscard]] std::optional<std::vector<ByteRange>> places_of_rows(const char* function, const Object& dataset,
                                                                   std::span<const std::uint64_t> rows,
                                                                   bool wanted = true);

}   // namespace forebay::hdf5
