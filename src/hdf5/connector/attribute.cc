#include "hdf5/connector/callbacks.h"

namespace forebay::hdf5 {

namespace {

void* attribute_create(void* object, const H5VL_loc_params_t* location, const char* name, hid_t type, hid_t space,
                       hid_t creation, hid_t access, hid_t transfer, void** request) {
    return forward_new("attribute_create", object, location, request, [&](void* under, hid_t connector) {
        return host().H5VLattr_create(under, location, connector, name, type, space, creation, access, transfer,
                                      request);
    });
}

void* attribute_open(void* object, const H5VL_loc_params_t* location, const char* name, hid_t access, hid_t transfer,
                     void** request) {
    return forward_new("attribute_open", object, location, request, [&](void* under, hid_t connector) {
        return host().H5VLattr_open(under, location, connector, name, access, transfer, request);
    });
}

herr_t attribute_read(void* attribute, hid_t type, void* buffer, hid_t transfer, void** request) {
    return forward("attribute_read", attribute, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLattr_read(under, connector, type, buffer, transfer, request);
    });
}

herr_t attribute_write(void* attribute, hid_t type, const void* buffer, hid_t transfer, void** request) {
    return forward("attribute_write", attribute, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLattr_write(under, connector, type, buffer, transfer, request);
    });
}

herr_t attribute_get(void* object, H5VL_attr_get_args_t* args, hid_t transfer, void** request) {
    AccessLists lists;
    if (args->op_type == H5VL_ATTR_GET_NAME) lists = &args->args.get_name.loc_params;
    else if (args->op_type == H5VL_ATTR_GET_INFO) lists = &args->args.get_info.loc_params;
    return forward("attribute_get", object, lists, request, [&](void* under, hid_t connector) {
        return host().H5VLattr_get(under, connector, args, transfer, request);
    });
}

herr_t attribute_specific(void* object, const H5VL_loc_params_t* location, H5VL_attr_specific_args_t* args,
                          hid_t transfer, void** request) {
    return forward("attribute_specific", object, location, request, [&](void* under, hid_t connector) {
        return host().H5VLattr_specific(under, location, connector, args, transfer, request);
    });
}

herr_t attribute_optional(void* object, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    return forward("attribute_optional", object, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLattr_optional(under, connector, args, transfer, request);
    });
}

herr_t attribute_close(void* attribute, hid_t transfer, void** request) {
    return forward_close("attribute_close", attribute, request, [&](void* under, hid_t connector) {
        return host().H5VLattr_close(under, connector, transfer, request);
    });
}

}   // namespace

H5VL_attr_class_t attribute_callbacks() {
    return {attribute_create, attribute_open,     attribute_read,     attribute_write,
            attribute_get,    attribute_specific, attribute_optional, attribute_close};
}

}   // namespace forebay::hdf5
