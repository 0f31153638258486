// The name under which this plugin serves HDF5, and the meaning of its connector text (docs/migrating.md).
// One set of sources is linked as `forebay` and as drop-ins for other connectors; a file of src/hdf5/identity defines
// these functions for each. Thread-safety: any thread. `read_text` may block on one file; no other call blocks.
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
    bool names_configuration = false;   // information objects that programs fill in end with a configuration name
};
[[nodiscard]] const Identity& identity() noexcept;

using cache_vol::Switch;

struct TextMeaning {
    LoadedOptions loaded;
    Switch writes = Switch::kOn, reads = Switch::kOn;   // files that are staged, and that are read through the cache
    std::vector<std::string> notices;                   // each is told once in a job
    std::string notice_of_user;                         // the notice that is told a user once
    bool fails_in_event_set = false;   // event sets get the failures of asynchronous calls (connector/call_report.h)
};
[[nodiscard]] TextMeaning read_text(const std::string& text);

// Returns the text that counts for a file: the connector's own, and settings of the file access list.
[[nodiscard]] std::string text_of_list(hid_t file_access_list, const std::string& connector_text);

// True if the open of a dataset fetches all of it into the read cache.
[[nodiscard]] bool prefetches_at_open();
// OpenFile::closes_at_once, for all files.
[[nodiscard]] bool closes_at_once();

[[nodiscard]] const char* look_up_variable(const char* name) noexcept;
[[nodiscard]] std::vector<std::string> forebay_variables();

}   // namespace forebay::hdf5
