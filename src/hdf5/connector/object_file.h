// Which open file an object lies in, and whether a link leads to it.
//
// The location that an object was opened through may be in another file: mounts and external links lead out of theirs.
// So the file is asked for by HDF5's own number. Thread-safety: as HDF5's. Blocks only as HDF5's reading of an object
// header does. Source: HDF5 reference manual, H5Oget_info3, H5Fget_fileno.
#pragma once

#include <memory>
#include <optional>

#include "hdf5/connector/object.h"
#include "hdf5/open_file.h"

namespace forebay::hdf5 {

struct ObjectPlace {
    std::shared_ptr<OpenFile> file;   // null: it has not our driver
    bool linked = true;               // false: closing it for the last time deletes it
};

// The file alone, by its name: HDF5 reads nothing for that, and its metadata cache stays as it is. Null: two files were
// opened by one name, or the file was opened by another name before.
[[nodiscard]] std::shared_ptr<OpenFile> file_by_name(const Object& object, H5I_type_t type);

// Nothing: HDF5 does not tell.
[[nodiscard]] std::optional<ObjectPlace> place_of(const Object& object, H5I_type_t type);

}   // namespace forebay::hdf5
