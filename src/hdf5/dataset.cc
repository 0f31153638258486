#include <vector>

#include "hdf5/callbacks.h"
#include "hdf5/call_scope.h"
#include "hdf5/transfer.h"

namespace forebay::hdf5 {

namespace {

// Space is about to be freed, or may be: with several nodes nobody may hold bytes for it any more.
bool settle(const char* function, const Origin& origin) {
    if (origin.shared == nullptr)
        return true;
    const Status settled = origin.shared->settle();
    if (!settled)
        push_error(function, host().H5E_IO_g, host().H5E_WRITEERROR_g, settled);
    return settled.is_ok();
}

// What some ranks have filled others may write now. With nodes=consistent it has to be known who came first.
void meet_after_filling(const char* function, const Origin& origin) {
    if (origin.shared == nullptr || origin.shared->journal() == nullptr)
        return;
    if (const Status met = origin.shared->meet(); !met)
        Session::get().keep_failure(met.with_context(function));
}

void* dataset_create(void* object, const H5VL_loc_params_t* location, const char* name, hid_t link_creation, hid_t type,
                     hid_t space, hid_t creation, hid_t access, hid_t transfer, void** request) {
    return forward_new("dataset_create", object, {location, access}, request, [&](void* under, hid_t connector) {
        const std::shared_ptr<Origin> origin = as_object(object)->origin;
        const Allocation scope;
        void* const made = host().H5VLdataset_create(under, location, connector, name, link_creation, type, space, creation,
                                                     access, transfer, request);
        meet_after_filling("dataset_create", *origin);
        return made;
    });
}

void* dataset_open(void* object, const H5VL_loc_params_t* location, const char* name, hid_t access, hid_t transfer,
                   void** request) {
    return forward_new("dataset_open", object, {location, access}, request, [&](void* under, hid_t connector) {
        return host().H5VLdataset_open(under, location, connector, name, access, transfer, request);
    });
}

// One call for many datasets, all with the same connector beneath.
template <class Call>
herr_t transfer_datasets(const char* function, std::size_t count, void* datasets[], void** request, Call&& call) noexcept {
    return guard(function, [&]() -> herr_t {
        if (count == 0)
            return call(nullptr, H5I_INVALID_HID);
        void* single = nullptr;
        std::vector<void*> several;
        void** under = &single;
        if (count > 1) {
            several.resize(count);
            under = several.data();
        }
        const std::shared_ptr<Origin> origin = as_object(datasets[0])->origin;
        for (std::size_t i = 0; i < count; ++i) {
            if (as_object(datasets[i])->origin->under_connector != origin->under_connector) {
                push_error(function, host().H5E_ARGS_g, host().H5E_BADVALUE_g,
                           "the datasets of one call are in files with different connectors beneath");
                return -1;
            }
            under[i] = as_object(datasets[i])->under;
        }
        const herr_t result = call(under, origin->under_connector);
        wrap_request(request, origin);
        return result;
    });
}

herr_t dataset_read(std::size_t count, void* datasets[], hid_t memory_types[], hid_t memory_spaces[],
                    hid_t file_spaces[], hid_t transfer, void* buffers[], void** request) {
    return transfer_datasets("dataset_read", count, datasets, request, [&](void** under, hid_t connector) -> herr_t {
        const hid_t list = transfer_list(count, datasets, memory_types, transfer);
        return list < 0 ? -1
                        : host().H5VLdataset_read(count, under, connector, memory_types, memory_spaces, file_spaces, list,
                                                  buffers, request);
    });
}

herr_t dataset_write(std::size_t count, void* datasets[], hid_t memory_types[], hid_t memory_spaces[],
                     hid_t file_spaces[], hid_t transfer, const void* buffers[], void** request) {
    return transfer_datasets("dataset_write", count, datasets, request, [&](void** under, hid_t connector) -> herr_t {
        const hid_t list = transfer_list(count, datasets, memory_types, transfer);
        if (list < 0)
            return -1;
        // Filtered chunks move when they grow; their transfers are collective.
        const Object& first = *as_object(datasets[0]);
        if (count > 0 && first.facts.value_or(DatasetFacts{}).filtered && !settle("dataset_write", *first.origin))
            return -1;
        return host().H5VLdataset_write(count, under, connector, memory_types, memory_spaces, file_spaces, list, buffers,
                                        request);
    });
}

herr_t dataset_get(void* dataset, H5VL_dataset_get_args_t* args, hid_t transfer, void** request) {
    return forward("dataset_get", dataset, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLdataset_get(under, connector, args, transfer, request);
    });
}

herr_t dataset_specific(void* dataset, H5VL_dataset_specific_args_t* args, hid_t transfer, void** request) {
    const ObjectFlush scope(args->op_type == H5VL_DATASET_FLUSH || args->op_type == H5VL_DATASET_REFRESH);
    return forward("dataset_specific", dataset, {}, request, [&](void* under, hid_t connector) -> herr_t {
        const std::shared_ptr<Origin> origin = as_object(dataset)->origin;
        if (args->op_type == H5VL_DATASET_SET_EXTENT && !settle("dataset_set_extent", *origin))
            return -1;
        const Allocation allocation(args->op_type == H5VL_DATASET_SET_EXTENT);
        const herr_t result = host().H5VLdataset_specific(under, connector, args, transfer, request);
        if (args->op_type == H5VL_DATASET_SET_EXTENT)
            meet_after_filling("dataset_set_extent", *origin);
        return result;
    });
}

herr_t dataset_optional(void* dataset, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    return forward("dataset_optional", dataset, {}, request, [&](void* under, hid_t connector) {
        return host().H5VLdataset_optional(under, connector, args, transfer, request);
    });
}

herr_t dataset_close(void* dataset, hid_t transfer, void** request) {
    return forward_close("dataset_close", dataset, request, [&](void* under, hid_t connector) {
        return host().H5VLdataset_close(under, connector, transfer, request);
    });
}

}   // namespace

H5VL_dataset_class_t dataset_callbacks() {
    return {dataset_create, dataset_open,     dataset_read,     dataset_write,
            dataset_get,    dataset_specific, dataset_optional, dataset_close};
}

}   // namespace forebay::hdf5
