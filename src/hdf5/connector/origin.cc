#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

Origin::~Origin() {
    const ErrorStackKeeper keeper;
    if (under_connector >= 0) host().H5Idec_ref(under_connector);
    if (connector >= 0) host().H5Idec_ref(connector);
}

bool have_same_connector(const char* function, const Object& first, const Object& second) noexcept {
    const hid_t one = first.origin->under_connector, other = second.origin->under_connector;
    if (one == other) return true;
    H5VL_class_value_t value = -1, other_value = -1;   // HDF5 2.0 has several identifiers of one connector
    if (host().H5VLget_value(one, &value) >= 0 && host().H5VLget_value(other, &other_value) >= 0 &&
        value == other_value)
        return true;
    push_error(function, host().H5E_ARGS_g, host().H5E_BADVALUE_g,
               "the objects of one call are in files with different connectors beneath");
    return false;
}

bool are_usable(const char* function, void* first, void* second) noexcept {
    if (!is_usable(function, first) || !is_usable(function, second)) return false;
    return first == nullptr || second == nullptr ||
           have_same_connector(function, *as_object(first), *as_object(second));
}

}   // namespace forebay::hdf5
