#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/freed_space.h"

namespace forebay::hdf5 {

namespace {

herr_t link_create(H5VL_link_create_args_t* args, void* object, const H5VL_loc_params_t* location, hid_t link_creation,
                   hid_t access, hid_t transfer, void** request) {
    H5VL_link_create_args_t under_args = *args;
    AccessLists lists(location, access);
    // A hard link has two places, one of which may be absent (H5L_SAME_LOC).
    void* const target = args->op_type == H5VL_LINK_CREATE_HARD ? args->args.hard.curr_obj : nullptr;
    if (args->op_type == H5VL_LINK_CREATE_HARD) {
        under_args.args.hard.curr_obj = under_of(target);
        lists = AccessLists(location, &args->args.hard.curr_loc_params, access);
    }
    return forward("link_create", object != nullptr ? object : target, lists, request, [&](void*, hid_t connector) {
        if (!are_usable("link_create", object, target)) return herr_t{-1};
        return host().H5VLlink_create(&under_args, under_of(object), location, connector, link_creation, access,
                                      transfer, request);
    });
}

herr_t link_copy(void* source, const H5VL_loc_params_t* source_location, void* target,
                 const H5VL_loc_params_t* target_location, hid_t link_creation, hid_t access, hid_t transfer,
                 void** request) {
    return forward("link_copy", source != nullptr ? source : target, {source_location, target_location, access},
                   request, [&](void*, hid_t connector) {
                       if (!are_usable("link_copy", source, target)) return herr_t{-1};
                       return host().H5VLlink_copy(under_of(source), source_location, under_of(target), target_location,
                                                   connector, link_creation, access, transfer, request);
                   });
}

herr_t link_move(void* source, const H5VL_loc_params_t* source_location, void* target,
                 const H5VL_loc_params_t* target_location, hid_t link_creation, hid_t access, hid_t transfer,
                 void** request) {
    return forward("link_move", source != nullptr ? source : target, {source_location, target_location, access},
                   request, [&](void*, hid_t connector) {
                       if (!are_usable("link_move", source, target)) return herr_t{-1};
                       return host().H5VLlink_move(under_of(source), source_location, under_of(target), target_location,
                                                   connector, link_creation, access, transfer, request);
                   });
}

herr_t link_get(void* object, const H5VL_loc_params_t* location, H5VL_link_get_args_t* args, hid_t transfer,
                void** request) {
    return forward("link_get", object, location, request, [&](void* under, hid_t connector) {
        return host().H5VLlink_get(under, location, connector, args, transfer, request);
    });
}

herr_t link_specific(void* object, const H5VL_loc_params_t* location, H5VL_link_specific_args_t* args, hid_t transfer,
                     void** request) {
    return forward("link_specific", object, location, request, [&](void* under, hid_t connector) -> herr_t {
        if (args->op_type == H5VL_LINK_DELETE) {
            if (!ready_to_free("link_delete")) return -1;
            note_unlinked();
        }
        return host().H5VLlink_specific(under, location, connector, args, transfer, request);
    });
}

herr_t link_optional(void* object, const H5VL_loc_params_t* location, H5VL_optional_args_t* args, hid_t transfer,
                     void** request) {
    return forward("link_optional", object, location, request, [&](void* under, hid_t connector) {
        return host().H5VLlink_optional(under, location, connector, args, transfer, request);
    });
}

}   // namespace

H5VL_link_class_t link_callbacks() {
    return {link_create, link_copy, link_move, link_get, link_specific, link_optional};
}

}   // namespace forebay::hdf5
