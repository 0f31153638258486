#include "hdf5/connector/dataset_questions.h"

namespace forebay::hdf5 {

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

bool ask_native(const Object& dataset, int operation, H5VL_native_dataset_optional_args_t& native) {
    H5VL_optional_args_t args{operation, &native};
    return host().H5VLdataset_optional(dataset.under, dataset.origin->under_connector, &args,
                                       *host().H5P_LST_DATASET_XFER_ID_g, nullptr) >= 0;
}

haddr_t address_of(const Object& dataset) {
    haddr_t address = HADDR_UNDEF;
    H5VL_native_dataset_optional_args_t native{};
    native.get_offset.offset = &address;
    return ask_native(dataset, H5VL_NATIVE_DATASET_GET_OFFSET, native) ? address : HADDR_UNDEF;
}

}   // namespace forebay::hdf5
