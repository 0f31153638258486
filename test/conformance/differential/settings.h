// Random property lists: how files, datasets and groups are created and opened.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>

#include "element.h"
#include "identifier.h"
#include "random.h"
#include "selection.h"

namespace differential {

// A file keeps its driver: the members of a family cannot be opened as one plain file.
enum class Driver : std::uint8_t { kDefault, kPosix, kStandardIo, kCore, kCoreInMemory, kFamily, kSplit };

[[nodiscard]] Driver random_driver(Random& random);
[[nodiscard]] const char* driver_name(Driver driver);
// The name to give HDF5 for a file `stem` ("a") under this driver, and the files that it makes of it.
[[nodiscard]] std::string file_name(const std::string& stem, Driver driver);

// Every function appends what it chose to `text`.
[[nodiscard]] Id random_file_access(Driver driver, Random& random, std::string& text);
[[nodiscard]] Id random_file_creation(Random& random, std::string& text);
[[nodiscard]] Id random_group_creation(Random& random, std::string& text);
[[nodiscard]] Id random_dataset_access(Random& random, std::string& text);
[[nodiscard]] Id random_transfer_list(Random& random, std::string& text);
[[nodiscard]] Id creating_intermediate_groups();

struct DatasetPlan {
    Id creation, space;
    Dims dims;
    std::string text;
};
// `external_stem` names the raw files of an external dataset.
[[nodiscard]] DatasetPlan random_dataset(Element element, std::size_t elements_max, const std::string& external_stem,
                                         Random& random);

}   // namespace differential
