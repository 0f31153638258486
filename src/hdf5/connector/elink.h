// Exchanges the driver in file access lists inside link access lists (H5Pset_elink_fapl). An external link opens its
// file inside the native connector, with the file access list in the caller's link access list. It must name forebay's
// driver, or HDF5 would see neither that the file is open already nor its staged bytes. HDF5 takes the list from its
// call context, so the caller's list itself is changed for the time of the call. If it names another driver, its
// callback (H5Pset_elink_cb) is exchanged for one that makes the file whole first, as UnderList does. If the list names
// none, HDF5 uses the driver of the file with the link. Then the callback is exchanged too, also in HDF5's default
// list. HDF5 looks for the file in several places. The callback prepares only the first file there that HDF5 can open.
// Invariant: no call here is collective if the library shows its inner functions. One rank alone may look up a link,
// and HDF5 copies a file access list with a communicator, which is collective, only if it traverses an external link.
// So the list inside the caller's is changed in place. A library that hides those functions gives a copy. A copy of the
// list may outlive the call with forebay's driver and callback. So neither is ever freed. Thread-safety: lists change
// only inside callbacks, one at a time. Source: HDF5 reference manual, H5Pset_elink_fapl, H5Pset_elink_cb,
// H5Lcreate_external; H5L__extern_traverse.
#pragma once

#include <array>
#include <string>

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

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
    // `inherited`: the file with the link has another driver, which HDF5 uses if the list names none.
    ElinkSwap(const AccessLists& lists, bool inherited);
    ~ElinkSwap();
    ElinkSwap(const ElinkSwap&) = delete;
    ElinkSwap& operator=(const ElinkSwap&) = delete;

  private:
    ElinkSwap() = default;   // delegated to, so that the destructor runs even if the other constructor throws

    struct Changed {
        hid_t files = H5I_INVALID_HID;   // the file access list with forebay's driver
        hid_t list = H5I_INVALID_HID;    // the list that has a copy of `files`; invalid if it has `files` itself
    };
    // The data of forebay's callback. There is one for each different content, and none is freed.
    struct Watched {
        H5L_elink_traverse_t function = nullptr;   // the program's, or null
        void* data = nullptr;                      // the program's, for its function
        std::string prefix;                        // H5Pget_elink_prefix

        [[nodiscard]] bool operator<(const Watched& other) const noexcept;
    };
    struct Watch {
        hid_t list = H5I_INVALID_HID;
        const Watched* watched = nullptr;
    };
    static herr_t before_opening(const char* parent_file, const char* parent_group, const char* file,
                                 const char* object, unsigned* flags, hid_t access, void* watched) noexcept;
    [[nodiscard]] static Watch watch(hid_t list);

    std::array<Changed, 3> changed_;
    std::array<Watch, 4> watches_;
};

}   // namespace forebay::hdf5
