#include "hdf5/connector/object_file.h"

#include "hdf5/open_files.h"

namespace forebay::hdf5 {

std::optional<ObjectPlace> place_of(const Object& object, H5I_type_t type) {
    H5VL_class_value_t connector = -1;
    if (object.under == nullptr || host().H5VLget_value(object.origin->under_connector, &connector) < 0 ||
        connector != H5_VOL_NATIVE)
        return std::nullopt;
    const QuietErrors quiet;
    H5VL_loc_params_t self{};
    self.obj_type = type;
    self.type = H5VL_OBJECT_BY_SELF;
    H5O_info2_t info{};
    H5VL_object_get_args_t args{};
    args.op_type = H5VL_OBJECT_GET_INFO;
    args.args.get_info.oinfo = &info;
    args.args.get_info.fields = H5O_INFO_BASIC;
    if (host().H5VLobject_get(object.under, &self, object.origin->under_connector, &args,
                              *host().H5P_LST_DATASET_XFER_ID_g, nullptr) < 0) {
        host().H5Eclear2(H5E_DEFAULT);
        return std::nullopt;
    }
    return ObjectPlace{OpenFiles::get().find(info.fileno), info.rc > 0};
}

}   // namespace forebay::hdf5
