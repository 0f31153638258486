#include "hdf5/connector/freed_space.h"

#include <vector>

#include "hdf5/connector/dataset_questions.h"
#include "hdf5/connector/object_file.h"
#include "hdf5/open_files.h"

namespace forebay::hdf5 {

namespace {

bool shrinks(const Object& dataset, const hsize_t* extents) {
    const hid_t space = ask(dataset, H5VL_DATASET_GET_SPACE);
    if (space < 0) return true;
    const int dimensions = host().H5Sget_simple_extent_ndims(space);
    std::vector<hsize_t> now(static_cast<std::size_t>(dimensions > 0 ? dimensions : 0));
    bool smaller = dimensions < 0 || host().H5Sget_simple_extent_dims(space, now.data(), nullptr) < 0;
    for (std::size_t i = 0; i < now.size(); ++i) smaller = smaller || extents[i] < now[i];
    host().H5Sclose(space);
    return smaller;
}

}   // namespace

bool ready_to_free(const char* function) {
    if (!OpenFiles::get().any_with_mpi()) return true;
    for (const auto& file : OpenFiles::get().on_several_nodes())
        if (const Status drained = file->await_drained(); !drained) {
            push_error(function, host().H5E_IO_g, host().H5E_WRITEERROR_g, drained);
            return false;
        }
    return true;
}

bool ready_to_close(const char* function, const Object& object, H5I_type_t type) {
    OpenFiles& files = OpenFiles::get();
    if (!files.any_with_mpi() || !files.may_have_unlinked() || files.on_several_nodes().empty()) return true;
    if (type != H5I_FILE)
        if (const auto place = place_of(object, type);
            place && (place->file == nullptr || place->file->shared == nullptr || place->linked))
            return true;
    return ready_to_free(function);
}

bool ready_to_resize(const char* function, const Object& dataset, const hsize_t* extents) {
    if (!OpenFiles::get().any_with_mpi() || OpenFiles::get().on_several_nodes().empty() || extents == nullptr)
        return true;
    return !shrinks(dataset, extents) || ready_to_free(function);
}

void note_unlinked() { OpenFiles::get().note_unlinked(); }

}   // namespace forebay::hdf5
