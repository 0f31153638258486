// The connector's information object: the text behind the connector's name.
//
//   HDF5_VOL_CONNECTOR="forebay nls=/local;size=8GiB;under_vol=0;under_info={}"
//
// HDF5 parses that variable while it initialises itself, and a refusal there would leave the whole
// library unusable. So the text is kept as it is, and judged when the first file is opened with it
// (see session.h).
//
// A program may fill in an information object by itself. Only those that `ConnectorInfo` made have a text; they are
// known by their addresses.
//
// Ownership: `info_copy` and `info_from_text` allocate, `info_free` releases; HDF5 calls both.
// Thread-safety: immutable once made. Nothing blocks.
// Source: HDF5 reference manual, H5VL_info_class_t.
#pragma once

#include <string>

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// As Cache VOL lays it out (H5VLcache_ext.h): programs hand H5Pset_vol one that they have filled in themselves. That of
// Async VOL (h5_async_vol.h) ends before the configuration, which must not be looked at then
// (Identity::names_configuration).
struct ForeignInfo {
    hid_t under_connector = H5I_INVALID_HID;
    void* under_info = nullptr;
    char configuration[255] = {};
};

// Ours begins like that, too, for programs that look at what they are handed.
struct ConnectorInfo : ForeignInfo {
    explicit ConnectorInfo(std::string the_text);
    ConnectorInfo(const ConnectorInfo&) = delete;
    ConnectorInfo& operator=(const ConnectorInfo&) = delete;
    ~ConnectorInfo();
    const std::string text;
};

// Of an information object of HDF5's, or of the program's own.
[[nodiscard]] std::string text_of_info(const void* info);

void* info_copy(const void* info);
herr_t info_compare(int* order, const void* left, const void* right);
herr_t info_free(void* info);
herr_t info_to_text(const void* info, char** text);
herr_t info_from_text(const char* text, void** info);

// The text in a file access list whose connector is forebay; empty when none was given.
[[nodiscard]] std::string info_of_list(hid_t file_access_list);

}   // namespace forebay::hdf5
