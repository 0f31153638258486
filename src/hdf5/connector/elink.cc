#include "hdf5/connector/elink.h"

#include "hdf5/connector/driver_swap.h"
#include "hdf5/host/guard.h"

namespace forebay::hdf5 {

namespace {

bool is_default(hid_t list) noexcept {
    const Host& h = host();
    return list <= 0 || list == *h.H5P_LST_LINK_ACCESS_ID_g || list == *h.H5P_LST_GROUP_ACCESS_ID_g ||
           list == *h.H5P_LST_DATASET_ACCESS_ID_g || list == *h.H5P_LST_DATATYPE_ACCESS_ID_g ||
           list == *h.H5P_LST_ATTRIBUTE_ACCESS_ID_g;
}

}   // namespace

hid_t AccessLists::of(const H5VL_loc_params_t* location) noexcept {
    if (location == nullptr) return H5I_INVALID_HID;
    if (location->type == H5VL_OBJECT_BY_NAME) return location->loc_data.loc_by_name.lapl_id;
    if (location->type == H5VL_OBJECT_BY_IDX) return location->loc_data.loc_by_idx.lapl_id;
    return H5I_INVALID_HID;
}

ElinkSwap::ElinkSwap(const AccessLists& lists) {
    std::size_t count = 0;
    for (const hid_t list : lists.lists) {
        if (is_default(list)) continue;
        // A list of another class (attribute access) lacks the property.
        if (host().H5Pexist(list, "external link fapl") <= 0) continue;
        const hid_t original = host().H5Pget_elink_fapl(list);
        if (original <= 0)   // H5P_DEFAULT: the parent file's own access, which names forebay's driver already
            continue;
        const hid_t changed = host().H5Pcopy(original);
        if (changed >= 0 && exchange_driver(changed) && host().H5Pset_elink_fapl(list, changed) >= 0)
            changed_[count++] = {list, original};
        else host().H5Pclose(original);
        if (changed >= 0) host().H5Pclose(changed);
    }
}

ElinkSwap::~ElinkSwap() {
    for (const Changed& changed : changed_) {
        if (changed.list < 0) continue;
        const ErrorStackKeeper keeper;
        host().H5Pset_elink_fapl(changed.list, changed.original);
        host().H5Pclose(changed.original);
    }
}

}   // namespace forebay::hdf5
