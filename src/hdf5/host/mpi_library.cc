#include "hdf5/host/mpi_library.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "hdf5/host/local_list.h"

namespace forebay::hdf5 {

namespace {

constexpr std::size_t kVersionTextMax = 8192;   // MPI_MAX_LIBRARY_VERSION_STRING of every MPI is smaller

constexpr const char* kVersionFunction = "MPI_Get_library_version";

// Finds a function in the MPI of HDF5. A tool in front of it (LD_PRELOAD) comes first, like for HDF5 itself.
void* find_function(const char* name) {
    void* const own = host().find_symbol(kVersionFunction);
    if (own != nullptr && dlsym(RTLD_DEFAULT, kVersionFunction) == own)
        if (void* const seen = dlsym(RTLD_DEFAULT, name); seen != nullptr) return seen;
    return host().find_symbol(name);
}

Result<std::string> implementation() {
    using GetLibraryVersion = int (*)(char*, int*);
    const auto get = reinterpret_cast<GetLibraryVersion>(host().find_symbol(kVersionFunction));
    if (get == nullptr) return Status(Code::kUnsupported, "the HDF5 library of this process has no MPI");
    std::string text(kVersionTextMax, '\0');
    int length = 0;
    if (get(text.data(), &length) != 0) return Status(Code::kUnsupported, "MPI_Get_library_version failed");
    text.resize(std::strlen(text.c_str()));
    if (text.find("Open MPI") != std::string::npos) return std::string("openmpi");
    // Other MPIs of this binary interface (Intel MPI, Cray MPICH, MVAPICH) name their origin too.
    for (const std::string_view name : {"MPICH", "Intel(R) MPI", "MVAPICH"})
        if (text.find(name) != std::string::npos) return std::string("mpich");
    return Status(Code::kUnsupported, "unknown MPI: " + text.substr(0, text.find('\n')));
}

Result<const file::MpiAdapter*> load() {
    const auto name = implementation();
    if (!name) return name.status();
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&mpi_adapter), &self) == 0 || self.dli_fname == nullptr)
        return Status(Code::kInternal, "cannot find the plugin's own file");
    const std::filesystem::path plugins = std::filesystem::path(self.dli_fname).parent_path();
    const std::string file = "libforebay_mpi_" + name.value() + ".so";
    std::string tried;
    for (const char* const way : {"../lib", "../../forebay"}) {
        const std::filesystem::path path = (plugins / way / file).lexically_normal();
        if (!std::filesystem::exists(path)) {
            tried += (tried.empty() ? "" : ", ") + path.string();
            continue;
        }
        void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return Status(Code::kUnavailable, std::string("cannot load it: ") + dlerror());
        const auto adapter = reinterpret_cast<file::MpiAdapterFunction>(dlsym(library, file::kMpiAdapterSymbol));
        const file::MpiAdapter* const opened = adapter != nullptr ? adapter(find_function) : nullptr;
        if (adapter != nullptr && opened == nullptr)
            return Status(Code::kUnsupported, path.string() + " does not fit the MPI of this process");
        if (opened == nullptr || opened->version != file::kMpiAdapterVersion)
            return Status(Code::kUnsupported, path.string() + " belongs to another version of forebay");
        return opened;
    }
    return Status(Code::kNotFound, "no library for this MPI: " + tried);
}

}   // namespace

Result<const file::MpiAdapter*> mpi_adapter() {
    static std::mutex mutex;
    static std::optional<Result<const file::MpiAdapter*>> loaded;
    const std::lock_guard lock(mutex);
    if (!loaded) loaded = load();
    return *loaded;
}

Result<OfferedTeam> OfferedTeam::make(hid_t file_access_list, const file::MpiAdapter& adapter) {
    OfferedTeam offered;
    if (adapter.communicator_bytes > sizeof offered.communicator)
        return Status(Code::kUnsupported, "the MPI handles are larger than any known MPI's");
    if (host().H5Pget(file_access_list, "mpi_params_comm", &offered.communicator) < 0)
        return Status(Code::kUnavailable, "the file access list has no MPI communicator");
    auto team = adapter.make_team(&offered.communicator);
    if (!team) return team.status();
    offered.team = std::move(team).value();
    return offered;
}

Result<MpiHandles> MpiHandles::of(hid_t file_access_list, const file::MpiAdapter& adapter, std::uint64_t communicator) {
    MpiHandles handles(adapter, communicator);
    if (adapter.info_bytes > sizeof handles.info_ ||
        host().H5Pget(file_access_list, "mpi_params_info", &handles.info_) < 0) {
        handles.adapter_ = nullptr;
        return Status(Code::kUnavailable, "the file access list has no MPI info object");
    }
    adapter.complete_info(&handles.info_);
    return handles;
}

MpiHandles::~MpiHandles() {
    if (adapter_ != nullptr) adapter_->free_info(&info_);
}

Result<file::Membership> members_of(hid_t file_access_list, const file::MpiAdapter& adapter) {
    const auto communicator = peek_communicator(file_access_list);
    if (!communicator) return communicator.status();
    return adapter.members(&communicator.value());
}

}   // namespace forebay::hdf5
