#include "hdf5/connector/operations.h"

#include <forebay/operations.h>

#include <algorithm>
#include <array>

#include "hdf5/host/guard.h"

namespace forebay::hdf5 {

namespace {

struct Known {
    const char* name;
    H5VL_subclass_t subclass;
    Operation operation;
    std::uint64_t data;   // how it treats data, for H5VLquery_optional
    int value = -1;
    bool registered = false;   // by this connector
};

constexpr H5VL_subclass_t kFile = H5VL_SUBCLS_FILE, kDataset = H5VL_SUBCLS_DATASET;
constexpr std::uint64_t kReads = H5VL_OPT_QUERY_READ_DATA;

// HDF5 gives the values. They change only at the connector's begin and end, when HDF5 makes no other calls.
constinit std::array the_operations{
    Known{"anl.gov.cache.dprefetch", kDataset, Operation::kPrefetch, 0},
    Known{"anl.gov.cache.dread_to_cache", kDataset, Operation::kRead, kReads},
    Known{"anl.gov.cache.dread_from_cache", kDataset, Operation::kRead, kReads},
    Known{"anl.gov.cache.dcache_create", kDataset, Operation::kCacheCreate, 0},
    Known{"anl.gov.cache.dcache_remove", kDataset, Operation::kCacheRemove, 0},
    Known{"anl.gov.cache.dmmap_remap", kDataset, Operation::kNothing, 0},
    Known{"anl.gov.dcache.async.op.pause", kDataset, Operation::kPauseDrain, 0},
    Known{"anl.gov.dcache.async.op.start", kDataset, Operation::kResumeDrain, 0},
    Known{"anl.gov.fcache.create", kFile, Operation::kCacheCreate, 0},
    Known{"anl.gov.fcache.remove", kFile, Operation::kCacheRemove, 0},
    Known{"anl.gov.fcache.async.op.pause", kFile, Operation::kPauseDrain, 0},
    Known{"anl.gov.fcache.async.op.start", kFile, Operation::kResumeDrain, 0},
    Known{"anl.gov.fcache.async.close.set", kFile, Operation::kCloseAtOnce, 0},
    Known{"anl.gov.fcache.async.close.wait", kFile, Operation::kWait, 0},
    Known{FOREBAY_FILE_PAUSE_DRAIN, kFile, Operation::kPauseDrain, 0},
    Known{FOREBAY_FILE_RESUME_DRAIN, kFile, Operation::kResumeDrain, 0},
    Known{FOREBAY_FILE_WAIT_DURABLE, kFile, Operation::kWaitDurable, 0},
    Known{FOREBAY_FILE_PREFETCH, kFile, Operation::kPrefetchRanges, 0},
    Known{FOREBAY_FILE_PREFETCH_LEFT, kFile, Operation::kPrefetchLeft, 0},
    Known{FOREBAY_FILE_PREFETCH_CANCEL, kFile, Operation::kPrefetchCancel, 0},
    Known{FOREBAY_FILE_PIN, kFile, Operation::kPin, 0},
    Known{FOREBAY_FILE_EVICT, kFile, Operation::kEvict, 0},
    Known{FOREBAY_FILE_QUERY, kFile, Operation::kQuery, 0},
    Known{FOREBAY_FILE_STATISTICS, kFile, Operation::kStatistics, 0},
    Known{FOREBAY_DATASET_PREFETCH, kDataset, Operation::kPrefetchDataset, 0},
    Known{FOREBAY_DATASET_FOLLOW, kDataset, Operation::kFollow, 0},
    Known{"gov.lbl.async.file.wait", kFile, Operation::kEndRequests, 0},
    Known{"gov.lbl.async.file.start", kFile, Operation::kResumeDrain, 0},
    Known{"gov.lbl.async.file.pause", kFile, Operation::kPauseDrain, 0},
    Known{"gov.lbl.async.file.delay", kFile, Operation::kNothing, 0},
    Known{"gov.lbl.async.dataset.wait", kDataset, Operation::kEndRequests, 0},
    Known{"gov.lbl.async.dataset.start", kDataset, Operation::kResumeDrain, 0},
    Known{"gov.lbl.async.dataset.pause", kDataset, Operation::kPauseDrain, 0},
    Known{"gov.lbl.async.dataset.delay", kDataset, Operation::kNothing, 0},
    // A request starts when it is made, in the order of the calls.
    Known{"gov.lbl.async.request.start", H5VL_SUBCLS_REQUEST, Operation::kNothing, 0},
    Known{"gov.lbl.async.request.dep", H5VL_SUBCLS_REQUEST, Operation::kNothing, 0},
};

const Known* find(H5VL_subclass_t subclass, int value) noexcept {
    const auto found = std::ranges::find_if(the_operations, [&](const Known& one) {
        return one.value >= 0 && one.value == value && one.subclass == subclass;
    });
    return found == the_operations.end() ? nullptr : &*found;
}

}   // namespace

bool register_operations() {
    if (the_operations.back().value >= 0) return true;
    for (Known& one : the_operations) {
        int value = -1;
        {
            // Another connector of forebay may have registered the operation.
            const QuietErrors quiet;
            if (host().H5VLfind_opt_operation(one.subclass, one.name, &value) < 0) {
                host().H5Eclear2(H5E_DEFAULT);
                value = -1;
            }
        }
        if (value < 0) {
            if (host().H5VLregister_opt_operation(one.subclass, one.name, &value) < 0) return false;
            one.registered = true;
        }
        one.value = value;
    }
    return true;
}

void forget_operations() noexcept {
    if (the_operations.front().value < 0) return;   // the call would clear the error stack
    const QuietErrors quiet;
    for (Known& one : the_operations) {
        if (std::exchange(one.registered, false)) (void)host().H5VLunregister_opt_operation(one.subclass, one.name);
        one.value = -1;
    }
}

std::optional<Operation> operation_of(H5VL_subclass_t subclass, int value) noexcept {
    const Known* const known = find(subclass, value);
    return known != nullptr ? std::optional(known->operation) : std::nullopt;
}

bool is_known_beneath(void* under, hid_t connector, H5VL_subclass_t subclass, int value) noexcept {
    const QuietErrors quiet;
    std::uint64_t flags = 0;
    if (host().H5VLintrospect_opt_query(under, connector, subclass, value, &flags) >= 0)
        return (flags & H5VL_OPT_QUERY_SUPPORTED) != 0;
    host().H5Eclear2(H5E_DEFAULT);
    return false;
}

bool knows_operation(H5VL_subclass_t subclass, int value, std::uint64_t& flags) noexcept {
    const Known* const known = find(subclass, value);
    if (known == nullptr) return false;
    flags = H5VL_OPT_QUERY_SUPPORTED | known->data;
    return true;
}

}   // namespace forebay::hdf5
