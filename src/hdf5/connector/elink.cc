#include "hdf5/connector/elink.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
#include "hdf5/connector/other_driver.h"
#include "hdf5/host/guard.h"
#include "hdf5/host/local_list.h"
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

std::string prefix_of(hid_t list) {
    const ssize_t size = host().H5Pget_elink_prefix(list, nullptr, 0);
    if (size <= 0) return {};
    std::string prefix(static_cast<std::size_t>(size) + 1, '\0');   // with the zero at the end
    (void)host().H5Pget_elink_prefix(list, prefix.data(), prefix.size());
    return prefix.c_str();
}

// The places where HDF5 looks for the file behind a link, in its order (H5F_prefix_open_file).
std::vector<std::filesystem::path> places_of(const char* parent_file, const char* file, const std::string& prefix) {
    using Path = std::filesystem::path;
    std::vector<Path> folders, places;
    if (const char* const prefixes = std::getenv("HDF5_EXT_PREFIX"); prefixes != nullptr) {
        const std::string all = prefixes;
        for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
            end = all.find(':', begin);
            const std::string one = all.substr(begin, end == std::string::npos ? end : end - begin);
            if (!one.empty()) folders.emplace_back(one);
        }
    }
    if (!prefix.empty()) folders.emplace_back(prefix);
    folders.push_back(Path(parent_file).parent_path());
    folders.emplace_back();   // the working directory
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

// If a driver cannot open the file, HDF5 goes on to the next place. After any other failure it gives up.
bool can_be_opened(const char* path, unsigned flags) {
    struct stat status{};
    const int wanted = (flags & H5F_ACC_RDWR) != 0 ? R_OK | W_OK : R_OK;
    return ::stat(path, &status) == 0 && !S_ISDIR(status.st_mode) && ::eaccess(path, wanted) == 0;
}

}   // namespace

hid_t AccessLists::of(const H5VL_loc_params_t* location) noexcept {
    if (location == nullptr) return H5I_INVALID_HID;
    if (location->type == H5VL_OBJECT_BY_NAME) return location->loc_data.loc_by_name.lapl_id;
    if (location->type == H5VL_OBJECT_BY_IDX) return location->loc_data.loc_by_idx.lapl_id;
    return H5I_INVALID_HID;
}

ElinkSwap::ElinkSwap(const AccessLists& lists, bool inherited) : ElinkSwap() {
    std::size_t count = 0, watches = 0;
    // HDF5 takes its default list if the call's is a default one, or none for links.
    if (inherited && std::ranges::any_of(lists.lists, [](hid_t list) { return list >= 0; }))
        watches_[watches++] = watch(*host().H5P_LST_LINK_ACCESS_ID_g);
    for (const hid_t list : lists.lists) {
        if (is_default(list)) continue;
        // A list of another class (attribute access) lacks the property.
        if (host().H5Pexist(list, "external link fapl") <= 0) continue;
        const auto own = peek_elink_fapl(list);
        const bool copied = !own;   // a library that hides its inner functions gives a copy only
        const hid_t files = own ? own.value() : host().H5Pget_elink_fapl(list);
        if (files <= 0) {   // H5P_DEFAULT: the driver of the link's file
            if (files == H5P_DEFAULT && inherited) watches_[watches++] = watch(list);
            continue;
        }
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
    const ErrorStackKeeper keeper;
    static std::set<Watched>& all = *new std::set<Watched>;   // HDF5 calls under its lock, or from one thread
    Watched found;
    if (host().H5Pget_elink_cb(list, &found.function, &found.data) < 0) return {};
    if (found.function == &before_opening) return {};   // by a call around this one, or for the list twice
    found.prefix = prefix_of(list);
    const Watched* const watched = &*all.insert(std::move(found)).first;
    if (!set_elink_callback(list, &before_opening, const_cast<Watched*>(watched))) return {};
    return {list, watched};
}

herr_t ElinkSwap::before_opening(const char* parent_file, const char* parent_group, const char* file,
                                 const char* object, unsigned* flags, hid_t access, void* watched) noexcept {
    const Watched& self = *static_cast<const Watched*>(watched);
    if (self.function != nullptr &&
        self.function(parent_file, parent_group, file, object, flags, access, self.data) < 0)
        return -1;
    // HDF5 passes the flags with which the program has created the parent file. It ignores these two without a
    // callback, and refuses them with one.
    const unsigned used = *flags & ~(H5F_ACC_TRUNC | H5F_ACC_EXCL);
    if (self.function == nullptr) *flags = used;
    if (*flags != used) return 0;
    const hid_t driver = host().H5Pget_driver(access);
    if (!is_left_to_driver(driver)) return 0;
    return guard("open_external_link", [&]() -> herr_t {
        const auto places = places_of(parent_file, file, self.prefix);
        const auto place = std::ranges::find_if(places,
                                                [&](const auto& at) { return can_be_opened(at.c_str(), used); });
        if (place == places.end()) return 0;
        if (const Status whole = make_whole(driver, place->c_str(), used); !whole) {
            push_error("open_external_link", host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, whole);
            return -1;
        }
        if (const auto identity = io::identify(place->string())) OtherDriverFiles::get().note_linked(identity.value());
        return 0;
    });
}

ElinkSwap::~ElinkSwap() {
    for (const Watch& watch : watches_) {
        if (watch.watched == nullptr) continue;
        const ErrorStackKeeper keeper;
        (void)set_elink_callback(watch.list, watch.watched->function, watch.watched->data);
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
