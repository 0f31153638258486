#include "hdf5/connector/addresses.h"

#include "hdf5/connector/object_file.h"
#include "hdf5/open_files.h"

namespace forebay::hdf5 {

// Asking for the file's number fills a place in HDF5's metadata cache with the object's header. With MPI HDF5 may read
// it collectively, while a rank may be alone here. So this asks only if the name leaves a choice.
std::shared_ptr<OpenFile> home_of(const Object& dataset) {
    const std::shared_ptr<OpenFile>& own = dataset.origin->file;
    // An object of an unstaged file may lie behind a mount or link in a staged one, so `only` below proves nothing.
    if (!dataset.origin->staged) return file_behind(dataset, H5I_DATASET);
    const bool shared = own != nullptr && own->shared != nullptr;
    if (shared && OpenFiles::get().only_shared() == own->shared) return own;
    if (auto only = OpenFiles::get().only()) return only;
    if (auto named = file_by_name(dataset, H5I_DATASET)) return named;
    if (const auto place = place_of(dataset, H5I_DATASET)) return place->file;
    return shared ? own : nullptr;
}

namespace {

// Exposes the offsets of a chunk iteration before the program's own function sees the first address.
struct Iteration {
    const Object& dataset;
    H5D_chunk_iter_op_t visit;
    void* data;
    bool given = false;

    static int step(const hsize_t* offset, unsigned filter_mask, haddr_t address, hsize_t size, void* self) noexcept {
        auto& iteration = *static_cast<Iteration*>(self);
        const auto give = [&]() -> herr_t { return expose_offsets("dataset_chunk_iter", iteration.dataset) ? 0 : -1; };
        iteration.given = iteration.given || guard("dataset_chunk_iter", give) >= 0;
        return iteration.given ? iteration.visit(offset, filter_mask, address, size, iteration.data) : -1;
    }
};

// Returns HADDR_UNDEF if the answer has no address.
haddr_t address_in(const H5VL_optional_args_t& args) {
    const auto* native = static_cast<const H5VL_native_dataset_optional_args_t*>(args.args);
    const haddr_t* address = nullptr;
    switch (args.op_type) {
        case H5VL_NATIVE_DATASET_GET_OFFSET: address = native->get_offset.offset; break;
        case H5VL_NATIVE_DATASET_GET_CHUNK_INFO_BY_IDX: address = native->get_chunk_info_by_idx.addr; break;
        case H5VL_NATIVE_DATASET_GET_CHUNK_INFO_BY_COORD: address = native->get_chunk_info_by_coord.addr; break;
        default: break;
    }
    return address != nullptr ? *address : HADDR_UNDEF;
}

}   // namespace

bool expose_offsets(const char* function, const Object& dataset) {
    const std::shared_ptr<OpenFile> file = home_of(dataset);
    const Status given = file != nullptr && file->file != nullptr ? file->file->expose_offsets() : Status::ok();
    if (!given) push_error(function, host().H5E_FILE_g, host().H5E_WRITEERROR_g, given);
    return given.is_ok();
}

herr_t dataset_optional_giving(const Object& dataset, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    const auto call = [&](H5VL_optional_args_t* under_args) {
        return host().H5VLdataset_optional(dataset.under, dataset.origin->under_connector, under_args, transfer,
                                           request);
    };
    if (!dataset.origin->staged && home_of(dataset) == nullptr) return call(args);
    if (args->op_type == H5VL_NATIVE_DATASET_CHUNK_ITER) {
        const auto& asked = static_cast<const H5VL_native_dataset_optional_args_t*>(args->args)->chunk_iter;
        if (asked.op == nullptr) return call(args);
        Iteration iteration{dataset, asked.op, asked.op_data};
        H5VL_native_dataset_optional_args_t native{};
        native.chunk_iter.op = &Iteration::step;
        native.chunk_iter.op_data = &iteration;
        H5VL_optional_args_t under_args{args->op_type, &native};
        return call(&under_args);
    }
    const herr_t result = call(args);
    if (result < 0 || address_in(*args) == HADDR_UNDEF) return result;
    return expose_offsets("dataset_optional", dataset) ? result : -1;
}

}   // namespace forebay::hdf5
