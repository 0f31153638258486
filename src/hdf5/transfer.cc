#include "hdf5/transfer.h"

namespace forebay::hdf5 {

namespace {

// H5D_XFER_IO_XFER_MODE_NAME, and what it holds (H5FDmpi.h; the type is there only with MPI).
constexpr const char* kTransferMode = "io_xfer_mode";
enum TransferMode : int { kIndependent = 0, kCollective = 1 };

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

bool is_filtered(const Object& dataset) {
    H5VL_dataset_get_args_t args{};
    args.op_type = H5VL_DATASET_GET_DCPL;
    args.args.get_dcpl.dcpl_id = H5I_INVALID_HID;
    if (host().H5VLdataset_get(dataset.under, dataset.origin->under_connector, &args, *host().H5P_LST_DATASET_XFER_ID_g,
                               nullptr) < 0)
        return true;
    const int filters = host().H5Pget_nfilters(args.args.get_dcpl.dcpl_id);
    host().H5Pclose(args.args.get_dcpl.dcpl_id);
    return filters != 0;
}

}   // namespace

hid_t transfer_list(std::size_t count, void* const datasets[], hid_t transfer) {
    bool shared = false;
    for (std::size_t i = 0; i < count; ++i)
        shared = shared || as_object(datasets[i])->origin->shared != nullptr;
    if (!shared || !is_collective(transfer))
        return transfer;
    for (std::size_t i = 0; i < count; ++i) {
        Object& dataset = *as_object(datasets[i]);
        if (!dataset.filtered)
            dataset.filtered = is_filtered(dataset);
        if (*dataset.filtered)
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
