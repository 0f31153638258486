#include "hdf5/host/wheel_filters.h"

#include <H5PLpublic.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "base/attempt.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

namespace {

constexpr const char* kModule = "/netCDF4/_netCDF4";
constexpr const char* kFilters = "/plugins/lib__nczhdf5filters.so";

int find_module(dl_phdr_info* info, std::size_t, void* found) {
    if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, kModule) == nullptr) return 0;
    *static_cast<std::string*>(found) = info->dlpi_name;
    return 1;
}

}   // namespace

void add_wheel_filters() noexcept {
    static std::atomic<bool> done{false};
    if (done.load(std::memory_order_relaxed) || done.exchange(true)) return;
    (void)attempt([] {
        std::string module;
        ::dl_iterate_phdr(find_module, &module);
        if (module.empty()) return;
        const std::string package = module.substr(0, module.rfind('/'));
        if (::access((package + kFilters).c_str(), R_OK) != 0) return;
        const auto append = reinterpret_cast<decltype(&::H5PLappend)>(host().find_symbol("H5PLappend"));
        if (append != nullptr) (void)append((package + "/plugins").c_str());
    });
}

}   // namespace forebay::hdf5
