#include "hdf5/connector/async_calls.h"
#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/freed_space.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

void* object_open(void* object, const H5VL_loc_params_t* location, H5I_type_t* opened, hid_t transfer, void** request) {
    // A failed open has no object type for HDF5 either.
    return forward_new(
        "object_open", object, location, request,
        [&](void* under, hid_t connector) {
            return host().H5VLobject_open(under, location, connector, opened, transfer, request);
        },
        Failure::kAtOnce);
}

herr_t object_copy(void* source, const H5VL_loc_params_t* source_location, const char* source_name, void* target,
                   const H5VL_loc_params_t* target_location, const char* target_name, hid_t copying,
                   hid_t link_creation, hid_t transfer, void** request) {
    return forward("object_copy", source, {source_location, target_location, H5I_INVALID_HID}, request,
                   [&](void* under, hid_t connector) -> herr_t {
                       if (!are_usable("object_copy", source, target)) return -1;
                       return host().H5VLobject_copy(under, source_location, source_name, under_of(target),
                                                     target_location, target_name, connector, copying, link_creation,
                                                     transfer, request);
                   });
}

herr_t object_get(void* object, const H5VL_loc_params_t* location, H5VL_object_get_args_t* args, hid_t transfer,
                  void** request) {
    return forward("object_get", object, location, request, [&](void* under, hid_t connector) {
        return host().H5VLobject_get(under, location, connector, args, transfer, request);
    });
}

herr_t object_specific(void* object, const H5VL_loc_params_t* location, H5VL_object_specific_args_t* args,
                       hid_t transfer, void** request) {
    const bool flushes = args->op_type == H5VL_OBJECT_FLUSH || args->op_type == H5VL_OBJECT_REFRESH;
    return forward(
        "object_specific", object, location, request,
        [&](void* under, hid_t connector) -> herr_t {
            if (args->op_type == H5VL_OBJECT_CHANGE_REF_COUNT && args->args.change_rc.delta < 0) {
                if (!ready_to_free("object_change_reference_count")) return -1;
                note_unlinked();
            }
            if (args->op_type == H5VL_OBJECT_REFRESH) Session::get().note_refresh();
            if (flushes && request == nullptr) end_reads_of_file(*as_object(object));
            return host().H5VLobject_specific(under, location, connector, args, transfer, request);
        },
        flushes ? CallKind::kObjectFlush : CallKind::kOther);
}

herr_t object_optional(void* object, const H5VL_loc_params_t* location, H5VL_optional_args_t* args, hid_t transfer,
                       void** request) {
    return forward("object_optional", object, location, request, [&](void* under, hid_t connector) {
        return host().H5VLobject_optional(under, location, connector, args, transfer, request);
    });
}

}   // namespace

H5VL_object_class_t object_callbacks() {
    return {object_open, object_copy, object_get, object_specific, object_optional};
}

}   // namespace forebay::hdf5
