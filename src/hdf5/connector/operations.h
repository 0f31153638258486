// The connector's operations beside HDF5's own. HDF5 calls them optional, and finds them by name.
// `forebay.*` are forebay's own (include/forebay/operations.h). `anl.gov.*` are Cache VOL's and `gov.lbl.async.*` Async
// VOL's, with their names and arguments, for programs linked with their static libraries. All connectors of forebay
// have all operations, each with one value. Thread-safety: as HDF5's; the connector's begin and end register and
// forget. No call blocks. Source: HDF5 reference manual, H5VLregister_opt_operation.
#pragma once

#include <cstdint>
#include <optional>

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

enum class Operation : std::uint8_t {
    kNothing,   // succeeds without effect
    kPauseDrain,
    kResumeDrain,
    kCloseAtOnce,   // closing a dataset of the file does not wait for asynchronous calls
    kWait,          // until asynchronous calls have ended and staged bytes are in the file
    kEndRequests,   // until asynchronous calls have ended
    kWaitDurable,   // until staged bytes are on the file's device
    kPrefetch,      // a selection of a dataset, into the read cache, if possible
    kRead,          // a selection of a dataset, like H5Dread
    kCacheCreate,   // stage or cache the file
    kCacheRemove,   // stop that
    kQuery,         // the file's bytes in the log and in the read cache
    kPrefetchRanges,
    kPrefetchDataset,   // like kPrefetch, but an error if impossible
    kFollow,            // rows of a dataset, in the order of their reads
    kPrefetchLeft,
    kPrefetchCancel,
    kPin,
    kEvict,
    kStatistics,
};

// Registers all operations once. Returns false, with an error on the stack, if HDF5 refuses one.
[[nodiscard]] bool register_operations();
void forget_operations() noexcept;

[[nodiscard]] std::optional<Operation> operation_of(H5VL_subclass_t subclass, int value) noexcept;
// True if the connector beneath has the operation too. The object's file then belongs to that connector.
[[nodiscard]] bool is_known_beneath(void* under, hid_t connector, H5VL_subclass_t subclass, int value) noexcept;
[[nodiscard]] bool knows_operation(H5VL_subclass_t subclass, int value, std::uint64_t& flags) noexcept;

}   // namespace forebay::hdf5
