#include "hdf5/connector/info.h"

#include <cstring>

#include "hdf5/host/guard.h"

namespace forebay::hdf5 {

void* info_copy(const void* info) {
    return guard("info_copy", [&]() -> void* { return new ConnectorInfo(*static_cast<const ConnectorInfo*>(info)); });
}

herr_t info_compare(int* order, const void* left, const void* right) {
    return guard("info_compare", [&]() -> herr_t {
        const int sign = static_cast<const ConnectorInfo*>(left)->text.compare(
            static_cast<const ConnectorInfo*>(right)->text);
        *order = sign < 0 ? -1 : sign > 0 ? 1 : 0;
        return 0;
    });
}

herr_t info_free(void* info) {
    delete static_cast<ConnectorInfo*>(info);
    return 0;
}

herr_t info_to_text(const void* info, char** text) {
    return guard("info_to_text", [&]() -> herr_t {
        const std::string& source = static_cast<const ConnectorInfo*>(info)->text;
        *text = static_cast<char*>(host().H5allocate_memory(source.size() + 1, false));
        if (*text == nullptr) throw std::bad_alloc();
        std::memcpy(*text, source.c_str(), source.size() + 1);
        return 0;
    });
}

herr_t info_from_text(const char* text, void** info) {
    return guard("info_from_text", [&]() -> herr_t {
        *info = new ConnectorInfo{text != nullptr ? text : ""};
        return 0;
    });
}

std::string info_of_list(hid_t file_access_list) {
    void* info = nullptr;
    if (host().H5Pget_vol_info(file_access_list, &info) < 0 || info == nullptr) return {};
    std::string text = std::move(static_cast<ConnectorInfo*>(info)->text);
    info_free(info);
    return text;
}

}   // namespace forebay::hdf5
