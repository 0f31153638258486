#include "hdf5/host/local_list.h"

#include "hdf5/host/guard.h"

namespace forebay::hdf5 {

namespace {

constexpr const char* kCommunicator = "mpi_params_comm";
constexpr const char* kHints = "mpi_params_info";

struct Inner {
    void* (*object)(hid_t) = nullptr;
    herr_t (*peek)(void*, const char*, void*) = nullptr;
    herr_t (*poke)(void*, const char*, const void*) = nullptr;

    [[nodiscard]] bool found() const noexcept { return object != nullptr && peek != nullptr && poke != nullptr; }
    [[nodiscard]] bool get(hid_t list, std::uint64_t& handle, const char* name = kCommunicator) const {
        void* const properties = object(list);
        return properties != nullptr && peek(properties, name, &handle) >= 0;
    }
    [[nodiscard]] bool put(hid_t list, const std::uint64_t& communicator) const {
        void* const properties = object(list);
        return properties != nullptr && poke(properties, kCommunicator, &communicator) >= 0;
    }
};

Inner find_inner() {
    Inner functions;
    functions.object = reinterpret_cast<decltype(functions.object)>(host().find_symbol("H5I_object"));
    functions.peek = reinterpret_cast<decltype(functions.peek)>(host().find_symbol("H5P_peek"));
    functions.poke = reinterpret_cast<decltype(functions.poke)>(host().find_symbol("H5P_poke"));
    return functions;
}

const Inner& inner() {
    static const Inner functions = find_inner();
    return functions;
}

// The null communicator of this MPI, which is in HDF5's default list.
bool null_communicator(const Inner& functions, std::uint64_t& communicator) {
    return functions.get(*host().H5P_LST_FILE_ACCESS_ID_g, communicator);
}

}   // namespace

Result<std::uint64_t> peek_communicator(hid_t file_access_list) {
    const Inner& functions = inner();
    if (!functions.found()) return Status(Code::kUnsupported, "this HDF5 library hides its inner functions");
    const ErrorStackKeeper keeper;
    std::uint64_t communicator = 0;
    if (!functions.get(file_access_list, communicator))
        return Status(Code::kUnavailable, "the file access list has no MPI communicator");
    return communicator;
}

hid_t copy_locally(hid_t file_access_list) {
    const Inner& functions = inner();
    const ErrorStackKeeper keeper;
    std::uint64_t own = 0, null = 0;
    if (!functions.found() || !functions.get(file_access_list, own) || !null_communicator(functions, null) ||
        !functions.put(file_access_list, null))
        return H5I_INVALID_HID;
    hid_t copy = host().H5Pcopy(file_access_list);
    const bool restored = functions.put(file_access_list, own);
    if (copy >= 0 && (!restored || !functions.put(copy, own))) {
        host().H5Pclose(copy);
        copy = H5I_INVALID_HID;
    }
    return copy;
}

void close_local_copy(hid_t copy) {
    const Inner& functions = inner();
    const ErrorStackKeeper keeper;
    std::uint64_t null = 0;
    if (null_communicator(functions, null) && functions.put(copy, null))
        host().H5Pclose(copy);   // otherwise leaks it, rather than free a communicator that it does not own
}

void carry_hints(hid_t from, hid_t to) {
    const Inner& functions = inner();
    const ErrorStackKeeper keeper;
    std::uint64_t hints = 0, before = 0;
    if (functions.found() && functions.get(from, hints, kHints) && functions.get(to, before, kHints) && hints != before)
        host().H5Pset(to, kHints, &hints);
}

Result<hid_t> peek_elink_fapl(hid_t link_access_list) {
    const Inner& functions = inner();
    if (!functions.found()) return Status(Code::kUnsupported, "this HDF5 library hides its inner functions");
    void* const properties = functions.object(link_access_list);
    hid_t files = H5P_DEFAULT;
    if (properties == nullptr || functions.peek(properties, "external link fapl", &files) < 0)
        return Status(Code::kUnavailable, "the list has no file access list for external links");
    return files;
}

bool set_elink_callback(hid_t link_access_list, H5L_elink_traverse_t function, void* data) {
    constexpr const char* kName = "external link callback";
    const struct {
        H5L_elink_traverse_t function;
        void* data;
    } callback{function, data};
    const Inner& functions = inner();
    std::size_t size = 0;
    void* const properties = functions.found() ? functions.object(link_access_list) : nullptr;
    if (properties == nullptr || host().H5Pget_size(link_access_list, kName, &size) < 0 || size != sizeof callback)
        return host().H5Pset_elink_cb(link_access_list, function, data) >= 0;
    return functions.poke(properties, kName, &callback) >= 0;
}

}   // namespace forebay::hdf5
