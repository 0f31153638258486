// Under which name this plugin serves HDF5, and what its text means.
//
// The same sources are linked twice: as `forebay` and as a drop-in for the Cache VOL connector `cache_ext`. They differ
// in one file of src/hdf5/identity each, which defines what is declared here. docs/migrating.md.
//
// Thread-safety: any thread. Blocking: `read_text` reads a file at most.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "cache_vol/settings.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

struct Identity {
    const char* name;
    H5VL_class_value_t value;
    bool names_configuration = false;   // information objects that programs fill in have a name for that at their end
};
[[nodiscard]] const Identity& identity() noexcept;

using cache_vol::Switch;

// What a connector's text comes to.
struct TextMeaning {
    LoadedOptions loaded;
    Switch writes = Switch::kOn, reads = Switch::kOn;   // which files are staged, and which are read through the cache
    std::vector<std::string> notices;                   // each to be told a job once
    std::string notice_of_user;                         // the one of them to be told a user once
    bool fails_in_event_set = false;   // failures of asynchronous calls go there (connector/call_report.h)
};
[[nodiscard]] TextMeaning read_text(const std::string& text);

// The text that counts for a file: the connector's own, and what else the file access list says.
[[nodiscard]] std::string text_of_list(hid_t file_access_list, const std::string& connector_text);

// A dataset that is opened is fetched into the read cache as a whole.
[[nodiscard]] bool prefetches_at_open();
// Closing a dataset does not wait for what was begun asynchronously (OpenFile::closes_at_once), in all files.
[[nodiscard]] bool closes_at_once();

// In the process's environment: what load_options needs.
[[nodiscard]] const char* look_up_variable(const char* name) noexcept;
[[nodiscard]] std::vector<std::string> forebay_variables();

}   // namespace forebay::hdf5
