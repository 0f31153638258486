// The connector's information object: the text behind the connector's name, for example
//
//   HDF5_VOL_CONNECTOR="forebay nls=/local;size=8GiB;under_vol=0;under_info={}"
//
// A refusal while HDF5 parses it, as it initialises itself, would make the whole library unusable. So the first open
// with the text judges it (session.h). A program may fill in an object by itself. Only objects of `ConnectorInfo` have
// a text; their addresses identify them. Ownership: `info_copy` and `info_from_text` allocate, `info_free` releases;
// HDF5 calls both. Thread-safety: immutable. No call blocks. Source: HDF5 reference manual, H5VL_info_class_t.
#pragma once

#include <string>

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// The layout of Cache VOL (H5VLcache_ext.h); programs fill in such an object and pass it to H5Pset_vol. Async VOL's
// (h5_async_vol.h) ends before the configuration, which must not be read then (Identity::names_configuration).
struct ForeignInfo {
    hid_t under_connector = H5I_INVALID_HID;
    void* under_info = nullptr;
    char configuration[255] = {};
};

// forebay's own object begins alike, for programs that read it.
struct ConnectorInfo : ForeignInfo {
    explicit ConnectorInfo(std::string the_text);
    ConnectorInfo(const ConnectorInfo&) = delete;
    ConnectorInfo& operator=(const ConnectorInfo&) = delete;
    ~ConnectorInfo();
    const std::string text;
};

// For a program's own object, returns a text that says the same.
[[nodiscard]] std::string text_of_info(const void* info);

void* info_copy(const void* info);
herr_t info_compare(int* order, const void* left, const void* right);
herr_t info_free(void* info);
herr_t info_to_text(const void* info, char** text);
herr_t info_from_text(const char* text, void** info);

// Throws std::bad_alloc: a file must not be opened with other options than its list's.
[[nodiscard]] std::string info_of_list(hid_t file_access_list);

}   // namespace forebay::hdf5
