#include "hdf5/host/host.h"

#include <dlfcn.h>
#include <link.h>

#include <string>

namespace forebay::hdf5 {

namespace {

constinit Host the_host;

// The layouts of H5VL_class_t (version 3) and H5FD_class_t (version 1) are the same in all of these.
constexpr unsigned kOldest[] = {1, 14};
constexpr unsigned kNewest[] = {2, 2};

// Returns a handle of the library at `caller`, and keeps that library loaded.
void* pin_library(const void* caller) {
    Dl_info info{};
    link_map* map = nullptr;
    if (dladdr1(caller, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return nullptr;
    const bool is_program = map->l_name == nullptr || map->l_name[0] == '\0';
    return is_program ? dlopen(nullptr, RTLD_LAZY) : dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

// Finds a variable as the library itself uses it: a program's own copy, made at load, if the program names the
// variable. An HDF5 library that the program does not link keeps its own.
void* find_variable(void* library, const Host& host, const char* name) {
    void* const own = dlsym(library, name);
    if (own == nullptr || dlsym(RTLD_DEFAULT, "H5get_libversion") != reinterpret_cast<void*>(host.H5get_libversion))
        return own;
    void* const shared = dlsym(RTLD_DEFAULT, name);
    return shared != nullptr ? shared : own;
}

// The caller may search for a connector after a failure, and H5get_libversion would empty its error stack.
class StackDuringBinding {
  public:
    explicit StackDuringBinding(void* library)
        : restore_(reinterpret_cast<decltype(restore_)>(dlsym(library, "H5Eset_current_stack"))) {
        const auto take = reinterpret_cast<decltype(&::H5Eget_current_stack)>(dlsym(library, "H5Eget_current_stack"));
        if (take != nullptr && restore_ != nullptr) stack_ = take();
    }
    ~StackDuringBinding() {
        if (stack_ >= 0) restore_(stack_);
    }
    StackDuringBinding(const StackDuringBinding&) = delete;
    StackDuringBinding& operator=(const StackDuringBinding&) = delete;

  private:
    decltype(&::H5Eset_current_stack) restore_;
    hid_t stack_ = H5I_INVALID_HID;
};

std::string find_symbols(void* library, Host& host) {
#define FOREBAY_FIND(name)                                                    \
    host.name = reinterpret_cast<decltype(host.name)>(dlsym(library, #name)); \
    if (host.name == nullptr) return #name;
    FOREBAY_HOST_FUNCTIONS(FOREBAY_FIND)
#undef FOREBAY_FIND
#define FOREBAY_FIND(name)                                                             \
    host.name = static_cast<decltype(host.name)>(find_variable(library, host, #name)); \
    if (host.name == nullptr) return #name;
    FOREBAY_HOST_VARIABLES(FOREBAY_FIND)
#undef FOREBAY_FIND
    host.sec2_init = reinterpret_cast<Host::DriverInit>(dlsym(library, "H5FD_sec2_init"));
    host.sec2_id = static_cast<const hid_t*>(find_variable(library, host, "H5FD_SEC2_id_g"));
    host.subfiling_init = reinterpret_cast<Host::DriverInit>(dlsym(library, "H5FD_subfiling_init"));
    host.subfiling_id = static_cast<const hid_t*>(find_variable(library, host, "H5FD_SUBFILING_id_g"));
    host.mpio_init = reinterpret_cast<Host::DriverInit>(dlsym(library, "H5FD_mpio_init"));
    host.mpio_id = static_cast<const hid_t*>(find_variable(library, host, "H5FD_MPIO_id_g"));
    host.library = library;
    if (host.sec2_init == nullptr && host.sec2_id == nullptr) return "H5FD_sec2_init";
    return {};
}

Status check_version(const Host& host, const std::string& path) {
    const bool too_old = host.major_version < kOldest[0] ||
                         (host.major_version == kOldest[0] && host.minor_version < kOldest[1]);
    const bool too_new = host.major_version > kNewest[0] ||
                         (host.major_version == kNewest[0] && host.minor_version > kNewest[1]);
    if (!too_old && !too_new) return Status::ok();
    return {Code::kUnsupported, path + " is HDF5 " + std::to_string(host.major_version) + "." +
                                    std::to_string(host.minor_version) + "." + std::to_string(host.release) +
                                    "; forebay serves HDF5 1.14.0 to 2.2"};
}

}   // namespace

const Host& host() noexcept { return the_host; }

hid_t Host::sec2() const { return sec2_id != nullptr ? *sec2_id : sec2_init(); }

hid_t Host::mpio() const {
    if (mpio_id != nullptr) return *mpio_id;
    return mpio_init != nullptr ? mpio_init() : H5I_INVALID_HID;
}

void* Host::find_symbol(const char* name) const noexcept { return library != nullptr ? dlsym(library, name) : nullptr; }

hid_t Host::subfiling() const {
    if (subfiling_id != nullptr) return *subfiling_id;
    return subfiling_init != nullptr ? subfiling_init() : H5I_INVALID_HID;
}

const void* library_base(const void* address) noexcept {
    Dl_info info{};
    return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

Status bind_host(const void* caller) {
    Dl_info info{};
    const std::string path = dladdr(caller, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "?";
    void* const library = pin_library(caller);
    if (library == nullptr)
        return {Code::kInternal, "cannot find the HDF5 library that loads the plugin (" + path + ")"};

    Host found;
    found.H5get_libversion = reinterpret_cast<decltype(found.H5get_libversion)>(dlsym(library, "H5get_libversion"));
    // A symbol from elsewhere belongs to another copy of HDF5, and two copies must never mix.
    if (found.H5get_libversion == nullptr ||
        library_base(reinterpret_cast<const void*>(found.H5get_libversion)) != library_base(caller))
        return {Code::kUnsupported, path + " does not export the HDF5 functions it contains"};
    const StackDuringBinding keeper(library);
    found.H5get_libversion(&found.major_version, &found.minor_version, &found.release);
    FOREBAY_TRY(check_version(found, path));
    if (const std::string missing = find_symbols(library, found); !missing.empty())
        return {Code::kUnsupported, path + " has no symbol " + missing};
    the_host = found;
    return Status::ok();
}

}   // namespace forebay::hdf5
