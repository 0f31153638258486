// Carries out the operations of operations.h. None changes the data that a program gets. Most are advice: they succeed
// without effect if a file is not staged or not cached. Exceptions are `kRead`, the waits and `kQuery`. Thread-safety:
// as HDF5's. Blocking: `kWait` and `kCacheRemove` until the staged bytes are in the file. With MPI only `kCacheRemove`
// is collective, over the file's communicator. `file` is null if forebay's driver did not open the file.
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

[[nodiscard]] herr_t carry_out(const char* function, Operation operation, OpenFile* file, const void* arguments);
// All operations but kRead, which is a transfer (dataset.cc).
[[nodiscard]] herr_t carry_out(const char* function, Operation operation, const Object& dataset, const void* arguments);

// Warns once if the program asks for cached data (`kRead`) of a file without a cache.
void hint_if_not_cached(const Object& dataset);

}   // namespace forebay::hdf5
