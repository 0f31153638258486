// File access lists inside link access lists (H5Pset_elink_fapl).
//
// An external link opens its file inside the native connector, with the file access list that the
// caller put into the link access list. It must name our driver there, or HDF5 would not see that the
// file is already open, nor the bytes that are staged for it. HDF5 takes the link access list from its
// own call context, not from the callback's arguments, so the caller's list itself is changed for the
// time of the call and restored after it.
//
// Thread-safety: the caller's list is changed only inside a callback, while HDF5 runs one call at a time.
// Source: HDF5 reference manual, H5Pset_elink_fapl; H5L__extern_traverse.
#pragma once

#include <array>

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// The lists of one callback through which a link may be followed.
struct AccessLists {
    AccessLists() = default;
    AccessLists(const H5VL_loc_params_t* location, hid_t list = H5I_INVALID_HID) : lists{of(location), list} {}
    AccessLists(const H5VL_loc_params_t* first, const H5VL_loc_params_t* second, hid_t list)
        : lists{of(first), of(second), list} {}

    std::array<hid_t, 3> lists{H5I_INVALID_HID, H5I_INVALID_HID, H5I_INVALID_HID};

  private:
    static hid_t of(const H5VL_loc_params_t* location) noexcept;
};

class ElinkSwap {
  public:
    explicit ElinkSwap(const AccessLists& lists);
    ~ElinkSwap();
    ElinkSwap(const ElinkSwap&) = delete;
    ElinkSwap& operator=(const ElinkSwap&) = delete;

  private:
    struct Changed {
        hid_t list = H5I_INVALID_HID;
        hid_t original = H5I_INVALID_HID;   // the caller's file access list
    };
    std::array<Changed, 3> changed_;
};

}   // namespace forebay::hdf5
