#include "hdf5/connector/callbacks.h"

namespace forebay::hdf5 {

namespace {

herr_t token_compare(void* object, const H5O_token_t* left, const H5O_token_t* right, int* order) {
    return forward("token_compare", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLtoken_cmp(under, connector, left, right, order);
    });
}

herr_t token_to_text(void* object, H5I_type_t type, const H5O_token_t* token, char** text) {
    return forward("token_to_text", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLtoken_to_str(under, type, connector, token, text);
    });
}

herr_t token_from_text(void* object, H5I_type_t type, const char* text, H5O_token_t* token) {
    return forward("token_from_text", object, {}, nullptr, [&](void* under, hid_t connector) {
        return host().H5VLtoken_from_str(under, type, connector, text, token);
    });
}

}   // namespace

H5VL_token_class_t token_callbacks() { return {token_compare, token_to_text, token_from_text}; }

}   // namespace forebay::hdf5
