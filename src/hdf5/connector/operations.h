// The operations that this connector has beside HDF5's own: HDF5 calls them optional, and finds them by name.
//
// `forebay.*` are forebay's own (include/forebay/operations.h). `anl.gov.*` are those of Cache VOL, `gov.lbl.async.*`
// those of Async VOL, with their names and argument structures: programs that were linked with their static libraries
// find them here. All connectors of forebay have them all. The value of a name is HDF5's, one for all connectors of a
// library. What each does is in file_operations.h.
//
// Thread-safety: as HDF5's; registering and forgetting belong to the connector's begin and end. Nothing blocks.
// Source: HDF5 reference manual, H5VLregister_opt_operation.
#pragma once

#include <cstdint>
#include <optional>

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

enum class Operation : std::uint8_t {
    kNothing,   // accepted: there is nothing to be done
    kPauseDrain,
    kResumeDrain,
    kCloseAtOnce,       // closing a dataset of the file waits for nothing that was begun asynchronously
    kWait,              // until that has ended, and what is staged is in the file
    kEndRequests,       // until what was begun asynchronously has ended
    kWaitDurable,       // the same, and on its device
    kPrefetch,          // a selection of a dataset, into the read cache, if it can be
    kRead,              // a selection of a dataset, as H5Dread
    kCacheCreate,       // have the file staged or cached
    kCacheRemove,       // no longer
    kQuery,             // how many bytes of the file are in the log and in the read cache
    kPrefetchRanges,    // ranges of a file
    kPrefetchDataset,   // as kPrefetch, but it is an error if it cannot be
    kFollow,            // rows of a dataset, in the order in which they will be read
    kPrefetchLeft,
    kPrefetchCancel,
    kPin,
    kEvict,
    kStatistics,
};

// Does nothing if they are registered. False: HDF5 refuses one; its error is on the stack.
[[nodiscard]] bool register_operations();
void forget_operations() noexcept;

// Nothing: the value is no operation of ours.
[[nodiscard]] std::optional<Operation> operation_of(H5VL_subclass_t subclass, int value) noexcept;
// Whether the connector beneath an object has the operation as well, as one of forebay's under another name would. Then
// the object's file is that one's.
[[nodiscard]] bool is_known_beneath(void* under, hid_t connector, H5VL_subclass_t subclass, int value) noexcept;
// Whether it is one of these; `flags` as of H5VLquery_optional.
[[nodiscard]] bool knows_operation(H5VL_subclass_t subclass, int value, std::uint64_t& flags) noexcept;

}   // namespace forebay::hdf5
