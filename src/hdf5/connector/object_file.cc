#include "hdf5/connector/object_file.h"

#include <algorithm>
#include <string>

#include "hdf5/open_files.h"

namespace forebay::hdf5 {

namespace {

bool is_native(const Object& object) {
    H5VL_class_value_t connector = -1;
    return object.under != nullptr && host().H5VLget_value(object.origin->under_connector, &connector) >= 0 &&
           connector == H5_VOL_NATIVE;
}

// Returns the name by which the program, or HDF5 at a link, opened the object's file.
std::optional<std::string> file_name_of(const Object& object, H5I_type_t type) {
    if (!is_native(object)) return std::nullopt;
    const QuietErrors quiet;
    const auto ask = [&](char* buffer, std::size_t size, std::size_t& length) {
        H5VL_file_get_args_t args{};
        args.op_type = H5VL_FILE_GET_NAME;
        args.args.get_name = {type, size, buffer, &length};
        return host().H5VLfile_get(object.under, object.origin->under_connector, &args,
                                   *host().H5P_LST_DATASET_XFER_ID_g, nullptr) >= 0;
    };
    std::size_t length = 0;
    std::string name;
    bool told = ask(nullptr, 0, length);
    if (told) {
        name.resize(length + 1);
        told = ask(name.data(), name.size(), length);
    }
    if (!told) {
        host().H5Eclear2(H5E_DEFAULT);
        return std::nullopt;
    }
    name.resize(std::min(length, name.size() - 1));
    return name;
}

}   // namespace

std::shared_ptr<OpenFile> file_by_name(const Object& object, H5I_type_t type) {
    const auto name = file_name_of(object, type);
    return name ? OpenFiles::get().only(*name) : nullptr;
}

std::shared_ptr<OpenFile> file_behind(const Object& object, H5I_type_t type) {
    if (OpenFiles::get().is_empty()) return nullptr;
    const auto name = file_name_of(object, type);
    if (!name || *name == object.origin->unstaged_name) return nullptr;
    if (auto named = OpenFiles::get().only(*name)) return named;
    const auto place = place_of(object, type);
    return place ? place->file : nullptr;
}

std::shared_ptr<OpenFile> file_at(const Object& file) {
    const bool numbered = file.origin->staged || is_native(file);   // another connector has numbers of its own
    return numbered ? open_file_of(file.under, file.origin->under_connector) : nullptr;
}

std::optional<ObjectPlace> place_of(const Object& object, H5I_type_t type) {
    if (!is_native(object)) return std::nullopt;
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
