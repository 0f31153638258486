// Random selections in a dataset, and selections in memory that match them.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <string>
#include <vector>

#include "identifier.h"
#include "random.h"

namespace differential {

using Dims = std::vector<hsize_t>;

[[nodiscard]] std::size_t product(const Dims& dims);
[[nodiscard]] std::string to_text(const Dims& dims);

// What H5Dread and H5Dwrite take: two spaces and the size of the buffer that fits them.
struct Transfer {
    Id file_space, memory_space;   // invalid: H5S_ALL
    std::size_t buffer_elements = 0;
    std::string text;

    [[nodiscard]] hid_t file() const { return file_space.valid() ? file_space.get() : H5S_ALL; }
    [[nodiscard]] hid_t memory() const { return memory_space.valid() ? memory_space.get() : H5S_ALL; }
};

// A selection in an extent of `dims` (rank 0: scalar). `elements_max` bounds the elements touched.
[[nodiscard]] Transfer random_transfer(const Dims& dims, Random& random, std::size_t elements_max);

// One hyperslab as a transfer from or to a contiguous buffer.
[[nodiscard]] Transfer slab_transfer(const Dims& dims, const Dims& start, const Dims& count);

// Selects something at random in `space`, whose extent is `dims`; says what.
std::string select_at_random(hid_t space, const Dims& dims, Random& random, std::size_t elements_max);

}   // namespace differential
