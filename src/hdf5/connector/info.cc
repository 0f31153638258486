#include "hdf5/connector/info.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <utility>

#include "base/immortal.h"
#include "hdf5/host/guard.h"
#include "hdf5/identity.h"

namespace forebay::hdf5 {

namespace {

struct KnownInfos {
    std::mutex mutex;
    std::set<const void*> infos;
    static KnownInfos& get() {
        static Immortal<KnownInfos> known;
        return *known;
    }
};

bool is_ours(const void* info) {
    KnownInfos& known = KnownInfos::get();
    const std::lock_guard lock(known.mutex);
    return known.infos.contains(info);
}

std::string text_of_foreign(const ForeignInfo& info) {
    const QuietErrors quiet;
    std::string text;
    if (identity().names_configuration) {
        const std::string_view configuration(info.configuration, sizeof info.configuration);
        text = "config=" + std::string(configuration.substr(0, configuration.find('\0'))) + ";";
    }
    H5VL_class_value_t value = H5_VOL_NATIVE;
    if (info.under_connector > 0 && host().H5VLget_value(info.under_connector, &value) < 0) value = H5_VOL_NATIVE;
    text += "under_vol=" + std::to_string(value);
    char* under = nullptr;
    if (info.under_connector > 0 && info.under_info != nullptr &&
        host().H5VLconnector_info_to_str(info.under_info, info.under_connector, &under) >= 0 && under != nullptr) {
        text += ";under_info={" + std::string(under) + "}";
        (void)host().H5free_memory(under);
    }
    host().H5Eclear2(H5E_DEFAULT);
    return text;
}

}   // namespace

ConnectorInfo::ConnectorInfo(std::string the_text) : text(std::move(the_text)) {
    KnownInfos& known = KnownInfos::get();
    const std::lock_guard lock(known.mutex);
    known.infos.insert(this);
}

ConnectorInfo::~ConnectorInfo() {
    KnownInfos& known = KnownInfos::get();
    const std::lock_guard lock(known.mutex);
    known.infos.erase(this);
}

std::string text_of_info(const void* info) {
    if (info == nullptr) return {};
    if (is_ours(info)) return static_cast<const ConnectorInfo*>(info)->text;
    return text_of_foreign(*static_cast<const ForeignInfo*>(info));
}

void* info_copy(const void* info) {
    return guard("info_copy", [&]() -> void* { return new ConnectorInfo(text_of_info(info)); });
}

herr_t info_compare(int* order, const void* left, const void* right) {
    return guard("info_compare", [&]() -> herr_t {
        const int sign = text_of_info(left).compare(text_of_info(right));
        *order = sign < 0 ? -1 : sign > 0 ? 1 : 0;
        return 0;
    });
}

herr_t info_free(void* info) {
    if (is_ours(info)) delete static_cast<ConnectorInfo*>(info);
    return 0;
}

herr_t info_to_text(const void* info, char** text) {
    return guard("info_to_text", [&]() -> herr_t {
        const std::string source = text_of_info(info);
        *text = static_cast<char*>(host().H5allocate_memory(source.size() + 1, false));
        if (*text == nullptr) throw std::bad_alloc();
        std::memcpy(*text, source.c_str(), source.size() + 1);
        return 0;
    });
}

herr_t info_from_text(const char* text, void** info) {
    return guard("info_from_text", [&]() -> herr_t {
        *info = new ConnectorInfo(text != nullptr ? text : "");
        return 0;
    });
}

std::string info_of_list(hid_t file_access_list) {
    void* info = nullptr;
    if (host().H5Pget_vol_info(file_access_list, &info) < 0)
        throw std::bad_alloc();   // info_copy fails of nothing else
    const std::unique_ptr<ConnectorInfo> copy(static_cast<ConnectorInfo*>(info));
    return copy != nullptr ? copy->text : std::string();
}

}   // namespace forebay::hdf5
