#include "hdf5/transfer.h"

namespace forebay::hdf5 {

namespace {

// H5D_XFER_IO_XFER_MODE_NAME, and what it holds (H5FDmpi.h; the type is there only with MPI).
// Of the library's own, but not hidden: the mode of the transfer under way.
constexpr const char* kGetTransferMode = "H5CX_get_io_xfer_mode";
constexpr const char* kTransferMode = "io_xfer_mode";
enum TransferMode : int { kIndependent = 0, kCollective = 1 };
// H5D_XFER_SELECTION_IO_MODE_NAME; the type is there only in later versions.
constexpr const char* kSelectionMode = "selection_io_mode";
enum SelectionMode : int { kSelectionAuto = 0, kSelectionOff = 1 };

// The copy of this thread's last call.
class KeptList {
  public:
    // Closing at the thread's end would call into a library that may have ended.
    ~KeptList() = default;
    hid_t keep(hid_t list) {
        if (list_ >= 0) {
            const ErrorStackKeeper keeper;
            host().H5Pclose(list_);
        }
        return list_ = list;
    }

  private:
    hid_t list_ = H5I_INVALID_HID;
};

bool is_collective(hid_t transfer) {
    const QuietErrors quiet;
    TransferMode mode = kIndependent;
    return host().H5Pexist(transfer, kTransferMode) > 0 && host().H5Pget(transfer, kTransferMode, &mode) >= 0 &&
           mode == kCollective;
}

// One thing that the connector beneath tells of a dataset; the caller closes it. Negative: it does not.
hid_t ask(const Object& dataset, H5VL_dataset_get_t what) {
    H5VL_dataset_get_args_t args{};
    args.op_type = what;
    hid_t* answer = nullptr;
    switch (what) {
        case H5VL_DATASET_GET_DCPL: answer = &args.args.get_dcpl.dcpl_id; break;
        case H5VL_DATASET_GET_SPACE: answer = &args.args.get_space.space_id; break;
        case H5VL_DATASET_GET_TYPE: answer = &args.args.get_type.type_id; break;
        default: return H5I_INVALID_HID;
    }
    *answer = H5I_INVALID_HID;
    const herr_t told = host().H5VLdataset_get(dataset.under, dataset.origin->under_connector, &args,
                                               *host().H5P_LST_DATASET_XFER_ID_g, nullptr);
    return told < 0 ? H5I_INVALID_HID : *answer;
}

// Whatever cannot be found out counts as filtered: then the list stays as it is.
DatasetFacts find_facts(const Object& dataset) {
    DatasetFacts facts{true, false};
    if (const hid_t creation = ask(dataset, H5VL_DATASET_GET_DCPL); creation >= 0) {
        const H5D_layout_t layout = host().H5Pget_layout(creation);
        facts.filtered = host().H5Pget_nfilters(creation) != 0;
        facts.never_collective = layout == H5D_COMPACT || layout == H5D_VIRTUAL || host().H5Pget_external_count(creation) > 0;
        host().H5Pclose(creation);
    }
    if (const hid_t space = ask(dataset, H5VL_DATASET_GET_SPACE); space >= 0) {
        facts.never_collective = facts.never_collective || host().H5Sget_simple_extent_type(space) == H5S_NULL;
        host().H5Sclose(space);
    }
    return facts;
}

// Without selection I/O, HDF5 does not convert or transform collectively.
bool converts_apart(const Object& dataset, hid_t memory_type, hid_t transfer) {
    SelectionMode mode = kSelectionAuto;
    const QuietErrors quiet;
    if (host().H5Pexist(transfer, kSelectionMode) <= 0 || host().H5Pget(transfer, kSelectionMode, &mode) < 0 ||
        mode != kSelectionOff)
        return false;
    if (host().H5Pget_data_transform(transfer, nullptr, 0) > 1)   // a longer expression than "x" is no identity
        return true;
    const hid_t type = ask(dataset, H5VL_DATASET_GET_TYPE);
    if (type < 0)
        return false;
    const bool different = host().H5Tequal(type, memory_type) == 0;
    host().H5Tclose(type);
    return different;
}

}   // namespace

const DatasetFacts& facts_of(Object& dataset) {
    if (!dataset.facts)
        dataset.facts = find_facts(dataset);
    return *dataset.facts;
}

bool is_collective_now() {
    using GetTransferMode = herr_t (*)(TransferMode*);
    static const auto get = reinterpret_cast<GetTransferMode>(host().find_symbol(kGetTransferMode));
    TransferMode mode = kIndependent;
    return get != nullptr && get(&mode) >= 0 && mode == kCollective;
}

bool can_tell_collective() {
    return host().find_symbol(kGetTransferMode) != nullptr;
}

hid_t transfer_list(std::size_t count, void* const datasets[], const hid_t memory_types[], hid_t transfer) {
    bool shared = false;
    for (std::size_t i = 0; i < count; ++i)
        shared = shared || as_object(datasets[i])->origin->shared != nullptr;
    if (!shared || !is_collective(transfer))
        return transfer;
    for (std::size_t i = 0; i < count; ++i) {
        Object& dataset = *as_object(datasets[i]);
        const DatasetFacts& facts = facts_of(dataset);
        if (facts.filtered || facts.never_collective || converts_apart(dataset, memory_types[i], transfer))
            return transfer;
    }
    static thread_local KeptList kept;
    const hid_t copy = kept.keep(host().H5Pcopy(transfer));
    const TransferMode mode = kIndependent;
    if (copy >= 0 && host().H5Pset(copy, kTransferMode, &mode) < 0)
        return H5I_INVALID_HID;
    return copy;
}

}   // namespace forebay::hdf5
