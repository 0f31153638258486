#include "hdf5/connector/elink.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "hdf5/connector/driver_swap.h"
#include "hdf5/connector/other_driver.h"
#include "hdf5/host/guard.h"
#include "hdf5/other_driver_files.h"
#include "io/posix_file.h"

namespace forebay::hdf5 {

namespace {

bool is_default(hid_t list) noexcept {
    const Host& h = host();
    return list <= 0 || list == *h.H5P_LST_LINK_ACCESS_ID_g || list == *h.H5P_LST_GROUP_ACCESS_ID_g ||
           list == *h.H5P_LST_DATASET_ACCESS_ID_g || list == *h.H5P_LST_DATATYPE_ACCESS_ID_g ||
           list == *h.H5P_LST_ATTRIBUTE_ACCESS_ID_g;
}

// All places where HDF5 looks for the file behind a link.
std::vector<std::filesystem::path> places_of(const char* parent_file, const char* file, hid_t list) {
    using Path = std::filesystem::path;
    std::vector<Path> folders{Path()}, places;
    if (const char* const prefixes = std::getenv("HDF5_EXT_PREFIX"); prefixes != nullptr) {
        const std::string all = prefixes;
        for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
            end = all.find(':', begin);
            folders.emplace_back(all.substr(begin, end == std::string::npos ? end : end - begin));
        }
    }
    if (const ssize_t size = host().H5Pget_elink_prefix(list, nullptr, 0); size > 0) {
        std::string prefix(static_cast<std::size_t>(size) + 1, '\0');
        (void)host().H5Pget_elink_prefix(list, prefix.data(), prefix.size());
        folders.emplace_back(prefix.c_str());
    }
    folders.push_back(Path(parent_file).parent_path());
    std::error_code none;
    folders.push_back(std::filesystem::canonical(parent_file, none).parent_path());
    Path name(file);
    if (name.is_absolute()) {
        places.push_back(name);
        name = name.filename();
    }
    for (const Path& folder : folders) places.push_back(folder / name);
    return places;
}

}   // namespace

hid_t AccessLists::of(const H5VL_loc_params_t* location) noexcept {
    if (location == nullptr) return H5I_INVALID_HID;
    if (location->type == H5VL_OBJECT_BY_NAME) return location->loc_data.loc_by_name.lapl_id;
    if (location->type == H5VL_OBJECT_BY_IDX) return location->loc_data.loc_by_idx.lapl_id;
    return H5I_INVALID_HID;
}

ElinkSwap::ElinkSwap(const AccessLists& lists) {
    std::size_t count = 0, watches = 0;
    for (const hid_t list : lists.lists) {
        if (is_default(list)) continue;
        // A list of another class (attribute access) lacks the property.
        if (host().H5Pexist(list, "external link fapl") <= 0) continue;
        const hid_t original = host().H5Pget_elink_fapl(list);
        if (original <= 0)   // H5P_DEFAULT: the parent file's own access, which names forebay's driver already
            continue;
        const hid_t changed = host().H5Pcopy(original);
        if (changed >= 0 && exchange_driver(changed) && host().H5Pset_elink_fapl(list, changed) >= 0) {
            changed_[count++] = {list, original};
        } else {
            if (!is_of_forebay(host().H5Pget_driver(original))) watched_[watches++] = watch(list);
            host().H5Pclose(original);
        }
        if (changed >= 0) host().H5Pclose(changed);
    }
}

std::unique_ptr<ElinkSwap::Watched> ElinkSwap::watch(hid_t list) {
    auto watched = std::make_unique<Watched>();
    watched->list = list;
    const bool known = host().H5Pget_elink_cb(list, &watched->function, &watched->data) >= 0;
    if (!known || watched->function == &before_opening ||   // by a call around this one, or for the list twice
        host().H5Pset_elink_cb(list, &before_opening, watched.get()) < 0)
        watched.reset();
    return watched;
}

herr_t ElinkSwap::before_opening(const char* parent_file, const char* parent_group, const char* file,
                                 const char* object, unsigned* flags, hid_t access, void* watched) noexcept {
    const Watched& self = *static_cast<const Watched*>(watched);
    if (self.function != nullptr &&
        self.function(parent_file, parent_group, file, object, flags, access, self.data) < 0)
        return -1;
    return guard("open_external_link", [&]() -> herr_t {
        // HDF5 passes the flags with which the program has created the parent file. It ignores these two without a
        // callback, and refuses them with one.
        const unsigned used = *flags & ~(H5F_ACC_TRUNC | H5F_ACC_EXCL);
        if (self.function == nullptr) *flags = used;
        const hid_t driver = host().H5Pget_driver(access);
        for (const auto& place : places_of(parent_file, file, self.list)) {
            if (const Status whole = make_whole(driver, place.c_str(), used); !whole) {
                push_error("open_external_link", host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, whole);
                return -1;
            }
            if (const auto identity = io::identify(place.string()))
                OtherDriverFiles::get().note_linked(identity.value());
        }
        return 0;
    });
}

ElinkSwap::~ElinkSwap() {
    for (auto& watched : watched_) {
        if (watched == nullptr) continue;
        const ErrorStackKeeper keeper;
        if (host().H5Pset_elink_cb(watched->list, watched->function, watched->data) < 0) (void)watched.release();
    }
    for (const Changed& changed : changed_) {
        if (changed.list < 0) continue;
        const ErrorStackKeeper keeper;
        host().H5Pset_elink_fapl(changed.list, changed.original);
        host().H5Pclose(changed.original);
    }
}

}   // namespace forebay::hdf5
