// What a random parallel program chooses: shapes, types, property lists and selections.
//
// Every rank draws the same choices from the same `random`. A choice is appended to `text`, for the journal.
#pragma once

#include <hdf5.h>
#include <mpi.h>

#include <cstddef>
#include <string>

#include "parallel_program.h"

namespace differential {

struct Extent {
    Dims dims, limit;
};

Extent extents_of(hid_t dataset);
Dims extent_of(hid_t dataset);
std::size_t extent_count(hid_t space);
std::size_t selected_count(hid_t space);

Dims random_dims(Random& random, std::size_t elements_max);

// An element that ranks can write in parallel: nothing that lives in the file's heaps. HDF5 does not convert on the way
// into filtered chunks that ranks write together. So there the type in the file is that in memory.
Element random_plain_element(bool filtered, Random& random);
Element element_in_memory(const SharedDataset& dataset, Random& random);

Id transfer_list(bool collective, bool filtered, Random& random);
Id file_access(MPI_Comm communicator, Random& random, std::string& text, bool& metadata_read_together);
Id file_creation(Random& random, std::string& text);

// Sets `chunk` of the dataset, and raises `limit` where it is to grow.
void choose_chunks(SharedDataset& dataset, hid_t creation, const Dims& dims, Dims& limit, Random& random,
                   std::string& text);
// Sets `unfilled` of the dataset.
void choose_fill(SharedDataset& dataset, hid_t creation, Random& random, std::string& text);

// One dimension with `count` elements selected: all of it, or every other one.
Id memory_space(std::size_t count, bool spread);

// HDF5 1.14 cannot share out filtered chunks that are larger than the extent. When an extent shrinks, each rank alone
// reads, refills and writes the filtered chunks that the new edge cuts, all at once. Under a finite limit, see
// choose_chunks, the extent stays.
void keep_chunks_whole(Dims& dims, const Extent& before, const Dims& chunk);

}   // namespace differential
