// The drop-in for Cache VOL. Turns its connector string, configuration file and variables into options of forebay.
#include <utility>

#include "cache_vol/connector_text.h"
#include "cache_vol/load.h"
#include "hdf5/host/guard.h"
#include "hdf5/identity.h"

namespace forebay::hdf5 {

namespace {

// Lines as in a configuration file, which H5Pset_fapl_cache puts into the list (src/api/local_storage.c).
constexpr const char* kListSettings = "forebay.local_storage";
constexpr std::size_t kListSettingsMax = std::size_t{1} << 20;

bool says_yes(const char* variable) { return cache_vol::switch_of(look_up_variable, variable) == Switch::kOn; }

}   // namespace

std::string text_of_list(hid_t file_access_list, const std::string& connector_text) {
    const QuietErrors quiet;
    std::size_t size = 0;
    if (host().H5Pexist(file_access_list, kListSettings) <= 0 ||
        host().H5Pget_size(file_access_list, kListSettings, &size) < 0 || size == 0 || size > kListSettingsMax)
        return connector_text;
    std::string settings(size, '\0');
    if (host().H5Pget(file_access_list, kListSettings, settings.data()) < 0) return connector_text;
    settings.resize(settings.find('\0') == std::string::npos ? size : settings.find('\0'));
    return connector_text + cache_vol::text_of_storage(settings);
}

const Identity& identity() noexcept {
    static constexpr Identity kCacheExt{"cache_ext", 513, true};
    return kCacheExt;
}

TextMeaning read_text(const std::string& text) {
    cache_vol::Loaded read = cache_vol::load(text, look_up_variable, forebay_variables());
    return {std::move(read.loaded),         read.writes,      read.reads, std::move(read.notices),
            std::move(read.notice_of_user), read.asynchronous};
}

bool prefetches_at_open() { return says_yes("DATASET_PREFETCH_AT_OPEN"); }
bool closes_at_once() { return says_yes("HDF5_CACHE_DELAY_CLOSE"); }

}   // namespace forebay::hdf5
