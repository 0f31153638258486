// Carries out the operations of operations.h, which an object of a file asks for.
//
// Most are advice: if a file is not staged or not cached, they leave it alone and succeed. Exceptions are `kRead`, the
// waits and `kQuery`. They do not change the data that a program gets.
// Thread-safety: as HDF5's. Blocking: `kWait` and `kCacheRemove` until the staged bytes are in the file. With MPI
// `kCacheRemove` is collective over the file's communicator, the others are not.
#pragma once

#include "hdf5/connector/object.h"
#include "hdf5/connector/operations.h"

namespace forebay::hdf5 {

// Argument structures of Cache VOL, in its layout. forebay's own are in include/forebay/operations.h.
struct CreateArguments {
    hid_t file_access_list;
    hsize_t size;
    enum Purpose : int { kRead, kWrite, kBoth } purpose;
    int duration;
};
struct PrefetchArguments {
    hid_t file_space;
};
struct ReadArguments {
    hid_t memory_type, memory_space, file_space;
    void* buffer;
};

// Carries out a file's operation. `file` is null if forebay's driver does not have it.
[[nodiscard]] herr_t carry_out(const char* function, Operation operation, OpenFile* file, const void* arguments);
// Carries out a dataset's operation, but not kRead, which is a transfer (dataset.cc).
[[nodiscard]] herr_t carry_out(const char* function, Operation operation, const Object& dataset, const void* arguments);

// Writes a notice, once, if a read should fill the cache but the file has none.
void hint_if_not_cached(const Object& dataset);

}   // namespace forebay::hdf5
