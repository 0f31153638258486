#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/freed_space.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

void* group_create(void* object, const H5VL_loc_params_t* location, const char* name, hid_t link_creation,
                   hid_t creation, hid_t access, hid_t transfer, void** request) {
    return forward_new("group_create", object, {location, access}, request, [&](void* under, hid_t connector) {
        if (name == nullptr) note_unlinked();
        return host().H5VLgroup_create(under, location, connector, name, link_creation, creation, access, transfer,
                                       request);
    });
}

void* group_open(void* object, const H5VL_loc_params_t* location, const char* name, hid_t access, hid_t transfer,
                 void** request) {
    return forward_new("group_open", object, {location, access}, request, [&](void* under, hid_t connector) {
        return host().H5VLgroup_open(under, location, connector, name, access, transfer, request);
    });
}

herr_t group_get(void* group, H5VL_group_get_args_t* args, hid_t transfer, void** request) {
    AccessLists lists;
    if (args->op_type == H5VL_GROUP_GET_INFO) lists = &args->args.get_info.loc_params;
    return forward("group_get", group, lists, request, [&](void* under, hid_t connector) {
        return host().H5VLgroup_get(under, connector, args, transfer, request);
    });
}

herr_t group_specific(void* group, H5VL_group_specific_args_t* args, hid_t transfer, void** request) {
    H5VL_group_specific_args_t under_args = *args;
    if (args->op_type == H5VL_GROUP_MOUNT) under_args.args.mount.child_file = under_of(args->args.mount.child_file);
    const bool flushes = args->op_type == H5VL_GROUP_FLUSH || args->op_type == H5VL_GROUP_REFRESH;
    return forward(
        "group_specific", group, {}, request,
        [&](void* under, hid_t connector) -> herr_t {
            if (args->op_type == H5VL_GROUP_REFRESH) Session::get().note_refresh();
            if (args->op_type == H5VL_GROUP_MOUNT && !are_usable("group_mount", group, args->args.mount.child_file))
                return -1;
            if (args->op_type == H5VL_GROUP_UNMOUNT && !ready_to_close("group_unmount", *as_object(group), H5I_FILE))
                return -1;
            return host().H5VLgroup_specific(under, connector, &under_args, transfer, request);
        },
        flushes ? CallKind::kObjectFlush : CallKind::kOther);
}

herr_t group_optional(void* group, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    return forward("group_optional", group, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLgroup_optional(under, connector, args, transfer, request);
    });
}

herr_t group_close(void* group, hid_t transfer, void** request) {
    return forward_close("group_close", group, request, [&](void* under, hid_t connector) -> herr_t {
        if (!ready_to_close("group_close", *as_object(group), H5I_GROUP)) return -1;
        return host().H5VLgroup_close(under, connector, transfer, request);
    });
}

}   // namespace

H5VL_group_class_t group_callbacks() {
    return {group_create, group_open, group_get, group_specific, group_optional, group_close};
}

}   // namespace forebay::hdf5
