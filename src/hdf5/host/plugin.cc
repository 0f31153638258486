// The plugin's entry points for HDF5, and the service for a second libhdf5 of one process.
// HDF5 asks H5PLget_plugin_info for the connector's class; the return address lies in the library that asks. This copy
// of the plugin binds the first such library. Any other one (h5py and PyTables each bring their own) gets a copy: the
// plugin's file, loaded from memory, with its own variables. The copies share only the count of pauses.

#include <H5PLextern.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "base/immortal.h"
#include "hdf5/connector/callbacks.h"
#include "hdf5/host/copies.h"
#include "hdf5/pause.h"
#include "hdf5/session.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

using InfoFor = const void* (*)(const void*);
using UsePauseCount = void (*)(void*);
constexpr const char* kInfoFor = "forebay_plugin_info_for";
constexpr const char* kUsePauseCount = "forebay_plugin_use_pause_count";

struct Copy {
    void* handle = nullptr;
    InfoFor info_for = nullptr;
};

struct Door {
    std::mutex mutex;
    const void* served = nullptr;
    const void* served_caller = nullptr;   // this library's code, which is never unloaded
    bool refused = false;
    std::map<const void*, Copy> copies;
};

Door& door() {
    static Immortal<Door> the_door;
    return *the_door;
}

Status fill_with_plugin(int target, const std::string& path) {
    const int source = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (source < 0) return Status::from_errno(errno, "open " + path);
    Status done;
    char buffer[1 << 16];
    for (ssize_t got = 0; done.is_ok() && (got = ::read(source, buffer, sizeof buffer)) != 0;) {
        if (got < 0) done = Status::from_errno(errno, "read " + path);
        else if (::write(target, buffer, static_cast<std::size_t>(got)) != got)
            done = Status::from_errno(errno, "copy " + path + " into memory");
    }
    ::close(source);
    return done;
}

// The descriptor stays open: the loader compares by name and inode, so /proc/self/fd/N must not be used again.
Result<void*> load_copy() {
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&load_copy), &self) == 0)
        return Status{Code::kInternal, "cannot find the plugin's own file"};
    const int descriptor = ::memfd_create("forebay_vol", MFD_CLOEXEC);
    if (descriptor < 0) return Status::from_errno(errno, "create a file in memory");
    Status filled = fill_with_plugin(descriptor, self.dli_fname);
    void* copy = nullptr;
    if (filled) {
        copy = dlopen(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), RTLD_NOW | RTLD_LOCAL);
        if (copy == nullptr)
            filled = {Code::kUnavailable, std::string("cannot load a second copy of the plugin: ") + dlerror()};
    }
    if (!filled) {
        ::close(descriptor);
        return filled;
    }
    return copy;
}

const void* info_for(const void* caller) {
    Door& self = door();
    const std::lock_guard lock(self.mutex);
    // HDF5 asks again with every open that fails, always from the same place.
    if (caller == self.served_caller && caller != nullptr) return &connector_class();
    const void* const library = library_base(caller);
    if (self.served == nullptr && !self.refused) {
        if (const Status bound = bind_host(caller); !bound) {
            warn_once(bound.message());
            self.refused = true;
            return nullptr;
        }
        self.served = library;
        self.served_caller = caller;
    }
    if (library == self.served) return &connector_class();
    Copy& copy = self.copies[library];
    if (copy.info_for == nullptr) {
        const Result<void*> loaded = load_copy();
        if (!loaded) {
            warn_once("a second HDF5 library of this process cannot be served: " + loaded.status().message());
            return nullptr;
        }
        const auto found = reinterpret_cast<InfoFor>(dlsym(loaded.value(), kInfoFor));
        const auto use = reinterpret_cast<UsePauseCount>(dlsym(loaded.value(), kUsePauseCount));
        if (found == nullptr || use == nullptr) return nullptr;
        use(&pause_count());
        copy = {loaded.value(), found};
    }
    return copy.info_for(caller);
}

// Runs after all exit handlers, HDF5's included, unless _exit, abort or a signal ends the process. No HDF5 or MPI here.
[[gnu::destructor]] void end_of_process() { Session::get().end_of_process(); }

}   // namespace

std::vector<void*> loaded_copies() {
    Door& self = door();
    const std::lock_guard lock(self.mutex);
    std::vector<void*> handles;
    for (const auto& [library, copy] : self.copies)
        if (copy.handle != nullptr) handles.push_back(copy.handle);
    return handles;
}

}   // namespace forebay::hdf5

extern "C" __attribute__((visibility("default"))) const void* forebay_plugin_info_for(const void* caller) {
    try {
        return forebay::hdf5::info_for(caller);
    } catch (...) {
        forebay::hdf5::warn_once("out of memory");
        return nullptr;
    }
}

extern "C" __attribute__((visibility("default"))) void forebay_plugin_use_pause_count(void* count) {
    forebay::hdf5::use_pause_count(*static_cast<forebay::hdf5::PauseCount*>(count));
}

extern "C" __attribute__((visibility("default"))) H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_VOL; }

extern "C" __attribute__((visibility("default"), noinline)) const void* H5PLget_plugin_info(void) {
    return forebay_plugin_info_for(__builtin_return_address(0));
}
