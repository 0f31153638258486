// Finds the open file of an object, and if a link leads to the object.
// Mounts and external links may lead to another file than the location's, so HDF5's own number names the file.
// Thread-safety: as HDF5's. Blocks while HDF5 reads an object header. Source: H5Oget_info3, H5Fget_fileno.
#pragma once

#include <memory>
#include <optional>

#include "hdf5/connector/object.h"
#include "hdf5/open_file.h"

namespace forebay::hdf5 {

struct ObjectPlace {
    std::shared_ptr<OpenFile> file;   // null if forebay's driver does not have it
    bool linked = true;               // false: its last close deletes it
};

// Finds the file by its name, without a read of HDF5 or a change of its metadata cache. Returns null if two files were
// opened by one name, or the file by another name before.
[[nodiscard]] std::shared_ptr<OpenFile> file_by_name(const Object& object, H5I_type_t type);

// Finds the file of an object that an unstaged file's mount or external link may lead to. Returns null if the object
// lies in the unstaged file itself. Reads the object's header only if the name does not tell. It does not use
// H5VL_OBJECT_GET_FILE: that call marks the file as held by an identifier, so HDF5 would not close it with its last
// object.
[[nodiscard]] std::shared_ptr<OpenFile> file_behind(const Object& object, H5I_type_t type);

// Finds the file of a file object. H5Iget_file_id may have made it of an object behind a mount or an external link.
[[nodiscard]] std::shared_ptr<OpenFile> file_at(const Object& file);

[[nodiscard]] std::optional<ObjectPlace> place_of(const Object& object, H5I_type_t type);

}   // namespace forebay::hdf5
