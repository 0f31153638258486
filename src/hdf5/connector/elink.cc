#include "hdf5/connector/elink.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "hdf5/connector/driver_swap.h"
#include "hdf5/host/guard.h"
#include "hdf5/host/local_list.h"

namespace forebay::hdf5 {

namespace {

bool is_default(hid_t list) noexcept {
    const Host& h = host();
    return list <= 0 || list == *h.H5P_LST_LINK_ACCESS_ID_g || list == *h.H5P_LST_GROUP_ACCESS_ID_g ||
           list == *h.H5P_LST_DATASET_ACCESS_ID_g || list == *h.H5P_LST_DATATYPE_ACCESS_ID_g ||
           list == *h.H5P_LST_ATTRIBUTE_ACCESS_ID_g;
}

std::string prefix_of(hid_t list) {
    const ssize_t size = host().H5Pget_elink_prefix(list, nullptr, 0);
    if (size <= 0) return {};
    std::string prefix(static_cast<std::size_t>(size) + 1, '\0');   // with the zero at the end
    (void)host().H5Pget_elink_prefix(list, prefix.data(), prefix.size());
    return prefix.c_str();
}

// All places where HDF5 looks for the file behind a link.
std::vector<std::filesystem::path> places_of(const char* parent_file, const char* file, const std::string& prefix) {
    using Path = std::filesystem::path;
    std::vector<Path> folders{Path()}, places;
    if (const char* const prefixes = std::getenv("HDF5_EXT_PREFIX"); prefixes != nullptr) {
        const std::string all = prefixes;
        for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
            end = all.find(':', begin);
            folders.emplace_back(all.substr(begin, end == std::string::npos ? end : end - begin));
        }
    }
    if (!prefix.empty()) folders.emplace_back(prefix);
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

ElinkSwap::ElinkSwap(const AccessLists& lists) : ElinkSwap() {
    std::size_t count = 0, watches = 0;
    for (const hid_t list : lists.lists) {
        if (is_default(list)) continue;
        // A list of another class (attribute access) lacks the property.
        if (host().H5Pexist(list, "external link fapl") <= 0) continue;
        const auto own = peek_elink_fapl(list);
        const bool copied = !own;   // a library that hides its inner functions gives a copy only
        const hid_t files = own ? own.value() : host().H5Pget_elink_fapl(list);
        if (files <= 0)   // H5P_DEFAULT: the parent file's own access, which names forebay's driver already
            continue;
        if (exchange_driver(files) && (!copied || host().H5Pset_elink_fapl(list, files) >= 0)) {
            changed_[count++] = {files, copied ? list : H5I_INVALID_HID};
            continue;
        }
        const bool left = is_left_to_driver(host().H5Pget_driver(files));
        if (copied) host().H5Pclose(files);
        if (left) watches_[watches++] = watch(list);
    }
}

bool ElinkSwap::Watched::operator<(const Watched& other) const noexcept {
    const auto key = [](const Watched& one) {
        return std::tuple(reinterpret_cast<std::uintptr_t>(one.function), reinterpret_cast<std::uintptr_t>(one.data),
                          std::string_view(one.prefix));
    };
    return key(*this) < key(other);
}

ElinkSwap::Watch ElinkSwap::watch(hid_t list) {
    static std::set<Watched>& all = *new std::set<Watched>;   // HDF5 calls under its lock, or from one thread
    Watched found;
    if (host().H5Pget_elink_cb(list, &found.function, &found.data) < 0) return {};
    if (found.function == &before_opening) return {};   // by a call around this one, or for the list twice
    found.prefix = prefix_of(list);
    const Watched* const watched = &*all.insert(std::move(found)).first;
    if (host().H5Pset_elink_cb(list, &before_opening, const_cast<Watched*>(watched)) < 0) return {};
    return {list, watched};
}

herr_t ElinkSwap::before_opening(const char* parent_file, const char* parent_group, const char* file,
                                 const char* object, unsigned* flags, hid_t access, void* watched) noexcept {
    const Watched& self = *static_cast<const Watched*>(watched);
    if (self.function != nullptr &&
        self.function(parent_file, parent_group, file, object, flags, access, self.data) < 0)
        return -1;
    return guard("open_external_link", [&]() -> herr_t {
        for (const auto& place : places_of(parent_file, file, self.prefix))
            if (const Status whole = make_whole(place.c_str(), *flags); !whole) {
                push_error("open_external_link", host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, whole);
                return -1;
            }
        return 0;
    });
}

ElinkSwap::~ElinkSwap() {
    for (const Watch& watch : watches_) {
        if (watch.watched == nullptr) continue;
        const ErrorStackKeeper keeper;
        host().H5Pset_elink_cb(watch.list, watch.watched->function, watch.watched->data);
    }
    for (const Changed& changed : changed_) {
        if (changed.files < 0) continue;
        const ErrorStackKeeper keeper;
        host().H5Pset_driver(changed.files, host().sec2(), nullptr);   // fails if the call has closed the list
        if (changed.list < 0) continue;
        host().H5Pset_elink_fapl(changed.list, changed.files);
        host().H5Pclose(changed.files);
    }
}

}   // namespace forebay::hdf5
