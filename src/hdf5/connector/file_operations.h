// What the operations of operations.h do to a file, asked for by one of its objects.
//
// They are advice, but for `kRead`, the waits and `kQuery`: a file that is not staged, or not read through the cache,
// is left as it is, and the call succeeds. A program gets the same data with them as without.
//
// Thread-safety: as HDF5's. Blocking: `kWait` and `kCacheRemove` until what is staged is in the file. With MPI
// `kCacheRemove` is collective over the file's communicator, the others are not.
#pragma once

#include "hdf5/connector/object.h"
#include "hdf5/connector/operations.h"

namespace forebay::hdf5 {

// Argument structures of Cache VOL, as it lays them out. forebay's own are in include/forebay/operations.h.
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

// Of a file; null: it has not our driver.
[[nodiscard]] herr_t carry_out(const char* function, Operation operation, OpenFile* file, const void* arguments);
// Of a dataset: all but kRead, which is a transfer (dataset.cc).
[[nodiscard]] herr_t carry_out(const char* function, Operation operation, const Object& dataset, const void* arguments);

// Before a read that is to leave something in the cache: tells once that the file has none.
void hint_if_not_cached(const Object& dataset);

}   // namespace forebay::hdf5
